-- What every verb has in common. KEYS: the record, its answer, the newest epoch, the channel, what is due, what is
-- unknown; the first of ARGV is the operation. Instants are microseconds of the server's clock, kept as decimal text: as
-- numbers they are exact until the year 2255, where time ends here. The verbs say in Lua what the table of the rule says.
--
-- What a sweep has to do with is in DUE, by when: what runs, when its lease runs out; what is unknown, when it is gone.
-- What is unknown is in UNKNOWN too, by since when. What has an answer is in neither, and goes by itself.

local RECORD, ANSWER, EPOCH, CHANNEL, DUE, UNKNOWN = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6]
local OPERATION = ARGV[1]
local END_OF_TIME = 9007199254740991

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

local function text(number)
    return string.format('%.0f', number)
end

local function later(at, by)
    return math.min(at + tonumber(by), END_OF_TIME)
end

-- What a failed command is answered with: damage where the key is of another type; else what the server says, which may pass.
local function of_another_type(failed, damaged)
    return string.find(failed.err, 'WRONGTYPE', 1, true) and redis.error_reply(damaged) or failed
end

-- What is wrong with a record that was not written by us, or was damaged; nil where nothing is. Every verb asks before
-- it reckons with a field: an error of Lua's own would pass for an outage, and be asked for again and again.
local function fault(row)
    local function number(name)
        local value = row[name]
        return value and #value <= 16 and string.find(value, '^%d+$') and tonumber(value) <= END_OF_TIME
    end
    local instants = {'until_at'}
    if row.state == 'unknown' or row.state == 'completed' then
        instants = {'ended_at', 'expires_at', 'gone_at'}
    elseif row.state ~= 'running' then
        return 'its state has no name'
    end
    for _, name in ipairs(instants) do
        if not number(name) then
            return 'one of its instants is missing or beyond all times'
        end
    end
    if not number('epoch') or not number('first_at') then
        return 'its epoch or its beginning is no number'
    end
    if row.taken_over ~= '0' and row.taken_over ~= '1' then
        return 'it does not say whether it was taken over'
    end
    if not row.scope or #row.scope ~= 16 or not row.claimant or #row.claimant ~= 16 then
        return 'its scope or its claimant has not 16 bytes'
    end
    if not row.request or #row.request ~= 32 then
        return 'its request has not 32 bytes'
    end
    return nil
end

-- The record, if it is still there at this moment; or nil and, where it is damaged, what the verb answers.
local function load()
    local fields = redis.pcall('HGETALL', RECORD)
    if fields.err then
        return nil, of_another_type(fields, 'DAMAGED its key holds something else')
    end
    if #fields == 0 then
        return nil
    end
    local row = {}
    for i = 1, #fields, 2 do
        row[fields[i]] = fields[i + 1]
    end
    local what = fault(row)
    if what then
        return nil, redis.error_reply('DAMAGED ' .. what)
    end
    if row.state ~= 'running' and now >= tonumber(row.gone_at) then
        return nil
    end
    return row
end

-- The record of the one who shows this epoch, if it still is the newest.
local function held(epoch)
    local row, damaged = load()
    if row and row.epoch ~= epoch then
        return nil
    end
    return row, damaged
end

-- How the record stands: state, epoch, first_at, taken_over, scope, request, what is left of the lease or when it
-- ended, when it expires, the answer.
local function stands(row, granted)
    local told = {granted and 'granted' or row.state, row.epoch, row.first_at, row.taken_over, row.scope, row.request}
    if row.state == 'running' then
        told[7] = text(math.max(tonumber(row.until_at) - now, 0))
        return told
    end
    told[7] = row.ended_at
    told[8] = row.expires_at
    if row.state == 'completed' then
        local answer = now < tonumber(row.expires_at) and redis.pcall('GET', ANSWER)
        if type(answer) == 'table' then
            return of_another_type(answer, 'DAMAGED the key of its answer holds something else')
        elseif answer then
            told[9] = answer
        else
            told[1] = 'expired'
        end
    end
    return told
end

-- In whole milliseconds, and not before its time: until then the verbs decide.
local function expire(key, at)
    redis.call('PEXPIREAT', key, text(math.ceil(at / 1000)))
end

-- Only where somebody waits.
local function tell(row)
    if row.waited == '1' then
        redis.call('PUBLISH', CHANNEL, OPERATION)
    end
end

-- It no longer stands where it stood.
local function leave(row)
    redis.call('ZREM', DUE, OPERATION)
    if row.state == 'unknown' then
        redis.call('ZREM', UNKNOWN, OPERATION)
    end
end

-- What came of it is kept from now on.
local function finish(row, state, answer_for, tombstone_for, answer)
    local expires_at = later(now, answer_for)
    local gone_at = later(expires_at, tombstone_for)
    if state == 'unknown' then
        redis.call('ZADD', DUE, text(gone_at), OPERATION)
        redis.call('ZADD', UNKNOWN, text(now), OPERATION)
    else
        leave(row)
    end
    row.state, row.ended_at, row.expires_at, row.gone_at = state, text(now), text(expires_at), text(gone_at)
    redis.call('HSET', RECORD, 'state', state, 'ended_at', row.ended_at, 'expires_at', row.expires_at,
        'gone_at', row.gone_at)
    expire(RECORD, gone_at)
    if answer then
        redis.call('SET', ANSWER, answer)
        expire(ANSWER, expires_at)
    end
end
