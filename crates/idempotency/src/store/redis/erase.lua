-- An answer past its time is not there, also where it still lies about.
local row, damaged = load()
if damaged then
    return damaged
end
local given = row and row.state == 'completed' and now < tonumber(row.expires_at)
local erased = redis.call('DEL', ANSWER)
return given and erased or 0
