{
  "targets": [
    {
      "target_name": "tslab",
      "sources": ["src/addon.c", "src/claim.c", "src/map.c", "src/pool.c", "src/wait.c", "src/walk.c"],
      "cflags": ["<!@(pkg-config --cflags tslab)", "-std=gnu11", "-fvisibility=hidden"],
      "libraries": ["<!@(pkg-config --libs tslab)"]
    }
  ]
}
