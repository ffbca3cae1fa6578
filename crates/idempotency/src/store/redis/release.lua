-- ARGV: epoch, operation.
local row = held(ARGV[1])
if not row or row.state == 'completed' then
    return 0
end
redis.call('DEL', RECORD, ANSWER)
tell(row, ARGV[2])
return 1
