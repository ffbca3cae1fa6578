-- ARGV: operation, epoch, lease.
local row, damaged = held(ARGV[2])
if damaged then
    return damaged
end
if not row or row.state ~= 'running' then
    return 0
end
local until_at = text(later(now, ARGV[3]))
redis.call('HSET', RECORD, 'until_at', until_at)
redis.call('ZADD', DUE, until_at, OPERATION)
return 1
