-- ARGV: operation, epoch, answer_for, tombstone_for, and the answer unless the outcome is unknown.
local row, damaged = held(ARGV[2])
if damaged then
    return damaged
end
if not row then
    return 0
end
if row.state == 'completed' then
    return 1
end
finish(row, ARGV[5] and 'completed' or 'unknown', ARGV[3], ARGV[4], ARGV[5])
tell(row)
return 1
