-- ARGV: operation, epoch.
local row = held(ARGV[2])
if not row or row.state == 'completed' then
    return 0
end
redis.call('DEL', RECORD, ANSWER)
leave(row)
tell(row)
return 1
