local row, damaged = load()
if not row then
    return damaged or false
end
if row.state == 'running' and row.waited ~= '1' then
    redis.call('HSET', RECORD, 'waited', '1')
end
return stands(row)
