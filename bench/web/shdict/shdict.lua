-- nginx's shared dict, measured as web.c measures others: GET /WORKLOAD?n=OPERATIONS. One worker, inside of nginx, no
-- request for each operation.
local ffi = require 'ffi'
local dict = ngx.shared.bench

local KEYS, COUNTERS, ROUNDS = 10000, 1000, 5
local VALUES_BYTES, ROUND_BYTES = 16 * 2^20, 256 * 2^20

-- The second request finds it declared.
pcall(ffi.cdef, 'struct bench_time { long seconds, nanoseconds; }; int clock_gettime(int clock, struct bench_time *ret);')

local function now_ns()
        local time = ffi.new 'struct bench_time'
        ffi.C.clock_gettime(1, time)
        return tonumber(time.seconds) * 1e9 + tonumber(time.nanoseconds)
end

local function keys(prefix, n)
        local found = {}
        for i = 1, n do
                found[i] = string.format('%s:%08x', prefix, i)
        end
        return found
end

local function order(n, n_keys)
        local found = {}
        math.randomseed(1)
        for i = 1, n do
                found[i] = math.random(n_keys)
        end
        return found
end

-- Nanoseconds of a round's operation: the median.
local function measure(n, round)
        local ns = {}
        for i = 1, ROUNDS do
                local begin = now_ns()
                round()
                ns[i] = (now_ns() - begin) / n
        end
        table.sort(ns)
        return ns[(ROUNDS + 1) / 2]
end

local function put_and_get(n, n_keys, size, prefix)
        local keys, order, values = keys(prefix, n_keys), order(n, n_keys), {}
        local value = string.rep('x', size - 8)
        for i = 1, n_keys do
                values[i] = string.format('%08x', i) .. value
        end
        local loop = measure(n, function()
                local k, v
                for i = 1, n do
                        k, v = keys[order[i]], values[order[i]]
                end
                return k, v
        end)
        local function put(key)
                local ok, err = dict:safe_set(keys[key], values[key])
                if not ok then
                        error('shdict does not set: ' .. err)
                end
        end
        for key = 1, n_keys do
                put(key)
        end
        local puts = measure(n, function()
                for i = 1, n do
                        put(order[i])
                end
        end)
        local gets = measure(n, function()
                for i = 1, n do
                        if #dict:get(keys[order[i]]) ~= size then
                                error 'another value'
                        end
                end
        end)
        dict:flush_all()
        dict:flush_expired()
        return puts - loop, gets - loop
end

local workloads = {}

function workloads.sessions(n)
        local put, get = put_and_get(n, KEYS, 256, 'session')
        return string.format('{"put_ns": %.1f, "get_ns": %.1f}', put, get)
end

function workloads.values(n)
        local found = {}
        for i, size in ipairs {16, 128, 1024, 4096, 65536, 262144, 1048576} do
                local put, get = put_and_get(math.floor(math.min(n, ROUND_BYTES / size)),
                                             math.floor(math.min(KEYS, VALUES_BYTES / size)), size, 'value-' .. i)
                found[i] = string.format('"put_%d_ns": %.1f, "get_%d_ns": %.1f', size, put, size, get)
        end
        return '{' .. table.concat(found, ', ') .. '}'
end

-- As in cycle.c.
function workloads.cycle(n)
        local keys, new, value = keys('another', KEYS), keys('new-000', KEYS), string.rep('x', 64)
        local one = keys[1]
        for i = 1, KEYS do
                dict:set(keys[i], value)
        end
        local function each(operation)
                return measure(n, function()
                        for _ = 1, n do
                                operation(one)
                        end
                end)
        end
        local loop = each(function(key) return key end)
        local get = each(function(key) return dict:get(key) end)
        local replace = each(function(key) dict:set(key, value) end)
        local both = each(function(key) dict:delete(key) dict:set(key, value) end)
        local puts, deletes = {}, {}
        for round = 1, ROUNDS do
                local begin = now_ns()
                for i = 1, KEYS do
                        dict:set(new[i], value)
                end
                local middle = now_ns()
                for i = 1, KEYS do
                        dict:delete(new[i])
                end
                puts[round], deletes[round] = (middle - begin) / KEYS, (now_ns() - middle) / KEYS
        end
        table.sort(puts)
        table.sort(deletes)
        dict:flush_all()
        dict:flush_expired()
        return string.format('{"get_ns": %.1f, "replace_ns": %.1f, "delete_and_put_ns": %.1f, "put_new_ns": %.1f, ' ..
                             '"delete_ns": %.1f}', get - loop, replace - loop, both - loop, puts[(ROUNDS + 1) / 2],
                             deletes[(ROUNDS + 1) / 2])
end

function workloads.counters(n)
        local keys, order = keys('counter', COUNTERS), order(n, COUNTERS)
        local loop = measure(n, function()
                local k
                for i = 1, n do
                        k = keys[order[i]]
                end
                return k
        end)
        local add = measure(n, function()
                for i = 1, n do
                        dict:incr(keys[order[i]], 1, 0)
                end
        end)
        return string.format('{"add_ns": %.1f}', add - loop)
end

local workload = workloads[ngx.var.uri:sub(2)]
if not workload then
        return ngx.exit(404)
end
ngx.say(workload(tonumber(ngx.var.arg_n) or 300000))
