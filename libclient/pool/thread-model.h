#pragma once
/*
 * How a thread finds its variables. The initial-exec model is a load from the thread pointer, but its memory, of which
 * a program that is running has about 1600 bytes for all libraries together, must be there when the library is loaded,
 * and musl does not load such a library at all. So libtslab.so takes 64 bytes of it at most, and the build that is made
 * to be loaded by other languages (meson option `bundled`) takes none. It calls the linker's function instead: figures
 * are in libclient/README.md.
 */
#ifdef TSLAB_BUNDLED
#define THREAD_MODEL
#else
#define THREAD_MODEL __attribute__((tls_model("initial-exec")))
#endif
