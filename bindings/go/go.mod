module tslab

go 1.19
