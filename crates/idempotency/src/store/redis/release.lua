-- ARGV: operation, epoch.
local row, damaged = held(ARGV[2])
if damaged then
    return damaged
end
if not row or row.state == 'completed' then
    return 0
end
redis.call('DEL', RECORD, ANSWER)
leave(row)
tell(row)
return 1
