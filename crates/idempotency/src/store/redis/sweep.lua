-- ARGV: operation, answer_for, tombstone_for. What a sweep has to do with one that was due: whoever came in between has
-- put it where it belongs, or taken it out. A damaged one stays as it is and is not due any more: enough of them would
-- stand before everything else.
local row, damaged = load()
if damaged then
    redis.call('ZREM', DUE, OPERATION)
    return damaged
end
if not row then
    redis.call('ZREM', UNKNOWN, OPERATION)
    return redis.call('ZREM', DUE, OPERATION) == 1 and 'gone' or 'nothing'
end
if row.state ~= 'running' or now < tonumber(row.until_at) then
    return 'nothing'
end
finish(row, 'unknown', ARGV[2], ARGV[3])
tell(row)
return 'lapsed'
