module tslabframeworks

go 1.19

require (
	github.com/alexedwards/scs/v2 v2.7.0
	github.com/gin-gonic/gin v1.9.1
	github.com/labstack/echo/v4 v4.11.4
	tslab v0.0.0
	tslab/echo v0.0.0
	tslab/gin v0.0.0
)

replace (
	tslab => ../../../bindings/go
	tslab/echo => ../../../bindings/go/echo
	tslab/gin => ../../../bindings/go/gin
)
