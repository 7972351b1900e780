-- For wrk: each request has one of 1000 sessions, in turn, so that no two at once have the same.
local names, next = {}, 0
for i = 1, 1000 do
        names[i] = string.format("PHPSESSID=%026d", i)
end
function request()
        next = next % #names + 1
        return wrk.format("GET", "/", { Cookie = names[next] })
end
