//go:build go1.24

package tslab

// These calls keep no pointer and call no Go, so that buffers may stay on the stack. Older compilers do not know the words.

// #cgo noescape shim_get
// #cgo nocallback shim_get
// #cgo noescape shim_get_with
// #cgo nocallback shim_get_with
// #cgo noescape shim_take
// #cgo nocallback shim_take
// #cgo noescape shim_put
// #cgo nocallback shim_put
// #cgo noescape shim_put_with
// #cgo nocallback shim_put_with
// #cgo noescape shim_delete
// #cgo nocallback shim_delete
// #cgo noescape shim_touch
// #cgo nocallback shim_touch
// #cgo noescape shim_add
// #cgo nocallback shim_add
// #cgo noescape shim_limit
// #cgo nocallback shim_limit
// #cgo noescape shim_claim
// #cgo nocallback shim_claim
// #cgo noescape shim_get_many
// #cgo nocallback shim_get_many
// #cgo noescape shim_put_many
// #cgo nocallback shim_put_many
// #cgo noescape shim_get_touch
// #cgo nocallback shim_get_touch
// #cgo noescape shim_tag
// #cgo nocallback shim_tag
// #cgo noescape shim_invalidate
// #cgo nocallback shim_invalidate
// #cgo noescape shim_set_counter
// #cgo nocallback shim_set_counter
// #cgo noescape shim_extend
// #cgo nocallback shim_extend
// #cgo noescape shim_is_claimed
// #cgo nocallback shim_is_claimed
// #cgo noescape shim_next
// #cgo nocallback shim_next
// #include "shim.h"
import "C"
