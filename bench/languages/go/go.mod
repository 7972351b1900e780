module tslabbench

go 1.19

require tslab v0.0.0

replace tslab => ../../../bindings/go
