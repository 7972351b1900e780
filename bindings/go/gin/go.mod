module tslab/gin

go 1.19

require (
	github.com/gin-gonic/gin v1.9.1
	tslab v0.0.0
)

replace tslab => ../
