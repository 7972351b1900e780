module tslab/echo

go 1.19

require (
	github.com/labstack/echo/v4 v4.11.4
	tslab v0.0.0
)

replace tslab => ../
