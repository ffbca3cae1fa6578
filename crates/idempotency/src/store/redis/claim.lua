-- ARGV: operation, scope, request, claimant, lease, takeover, answer_for, tombstone_for.
local scope, request, claimant, lease = ARGV[2], ARGV[3], ARGV[4], ARGV[5]
local takeover = ARGV[6] == '1'
local row, damaged = load()
if damaged then
    return damaged
end

-- A counter that was lost with the rest does not begin again: what is left of the time before would pass for new.
local function grant(taken_over, first_at, waited)
    local newest = redis.call('GET', EPOCH)
    if newest and not string.find(newest, '^%d+$') then
        return redis.error_reply('WRONGTYPE the newest epoch is no number')
    end
    local epoch = redis.call('INCR', EPOCH)
    if epoch < now then
        epoch = now
        redis.call('SET', EPOCH, text(now))
    end
    row = {
        state = 'running', epoch = text(epoch), first_at = first_at, taken_over = taken_over, scope = scope,
        request = request, until_at = text(later(now, lease)),
    }
    -- A script that fails is not undone. What may fail goes first, so that the record is still there then.
    redis.call('ZADD', DUE, row.until_at, OPERATION)
    redis.call('ZREM', UNKNOWN, OPERATION)
    redis.call('DEL', RECORD, ANSWER)
    redis.call('HSET', RECORD, 'state', 'running', 'epoch', row.epoch, 'claimant', claimant, 'first_at', first_at,
        'taken_over', taken_over, 'scope', scope, 'request', request, 'until_at', row.until_at, 'waited', waited)
    return stands(row, true)
end

if not row then
    return grant('0', text(now), '0')
end
if row.request ~= request or row.state == 'completed' or (row.state == 'unknown' and not takeover) then
    return stands(row)
end
if row.state == 'running' and row.claimant == claimant then
    return stands(row, true)
end
if row.state == 'running' and now < tonumber(row.until_at) then
    if row.waited ~= '1' then
        redis.call('HSET', RECORD, 'waited', '1')
    end
    return stands(row)
end
if takeover then
    return grant('1', row.first_at, row.waited)
end
finish(row, 'unknown', ARGV[7], ARGV[8])
tell(row)
row.state = 'lapsed'
return stands(row)
