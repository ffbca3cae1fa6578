-- ARGV: epoch, lease.
local row = held(ARGV[1])
if not row or row.state ~= 'running' then
    return 0
end
redis.call('HSET', RECORD, 'until_at', text(later(now, ARGV[2])))
return 1
