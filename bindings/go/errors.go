package tslab

import "syscall"

// Error is a call that failed. Compare it with errors.Is: with the errors below, and with values of syscall.Errno, which
// tslab(3) lists at each call.
type Error struct {
	Errno syscall.Errno
	About string // the key, map or pool; or the remedy
}

// Errors that programs tell apart. Each stands for all errors of its errno.
var (
	ErrNotFound    error = &Error{syscall.ENOENT, "no such key, map or pool"}
	ErrExists      error = &Error{syscall.EEXIST, "it is there already"}
	ErrChanged     error = &Error{syscall.EAGAIN, "it was changed meanwhile"}
	ErrFull        error = &Error{syscall.ENOMEM, "no memory or room is left for it"} // ENOMEM, ENOSPC
	ErrTooLarge    error = &Error{syscall.E2BIG, "larger than the pool, or the map, takes"}
	ErrClosed      error = &Error{syscall.EBADF, "the pool or map was closed in this process"}
	ErrReadOnly    error = &Error{syscall.EROFS, "the pool was opened as a reader"}
	ErrEpochClosed error = &Error{syscall.ESHUTDOWN, "the epoch is closed"}
	ErrStale       error = &Error{syscall.ESTALE, "the handle, or the era of the epoch, is over"}
	ErrReplaced    error = &Error{syscall.EUCLEAN, "the daemon has another arena: open the pool again; or a stray write damaged the value: a put replaces it"}
	ErrSelf        error = &Error{syscall.EDEADLK, "the computation of this key would wait for itself"}
	ErrOverflow    error = &Error{syscall.EOVERFLOW, "the counter would pass its 64 bits"}
	ErrInvalid     error = &Error{syscall.EINVAL, "out of range, or of another kind"}
)

// Remedies, where the errno's own text has none.
var remedies = map[syscall.Errno]string{
	syscall.ENOTCONN:        "there is no daemon now",
	syscall.ECONNREFUSED:    "there is no daemon",
	syscall.ECONNRESET:      "the daemon went away",
	syscall.ETIMEDOUT:       "the daemon did not answer in time",
	syscall.EPERM:           "the daemon does not let this process do that",
	syscall.EACCES:          "no permission to use the socket or, without Reader, to write",
	syscall.EUSERS:          "all records of threads, or all entries for processes, are taken, or the daemon has no descriptor left",
	syscall.EDQUOT:          "this user has nearly all records, entries or connections",
	syscall.EREMOTE:         "the daemon is of another pid namespace",
	syscall.EIDRM:           "the index of all maps was revoked: open the map anew",
	syscall.ENOBUFS:         "too many objects are pending in this thread",
	syscall.EPROTONOSUPPORT: "the pool is of another version or build: use one version, and restart after an upgrade",
	syscall.ENOSPC:          "the map is at its limit, or all 255 names of maps and roots are in use: remove maps",
}

func init() {
	for _, e := range []error{ErrNotFound, ErrExists, ErrChanged, ErrFull, ErrTooLarge, ErrClosed, ErrReadOnly,
		ErrEpochClosed, ErrStale, ErrReplaced} {
		e := e.(*Error)
		remedies[e.Errno] = e.About
		e.About = ""
	}
}

func (e *Error) Error() string {
	text := "tslab: "
	if e.About != "" {
		text += e.About + ": "
	}
	if remedy := remedies[e.Errno]; remedy != "" {
		return text + remedy
	}
	return text + e.Errno.Error()
}

// Unwrap returns the errno, so that errors.Is(err, syscall.ENOENT) and errors.Is(err, fs.ErrNotExist) hold.
func (e *Error) Unwrap() error { return e.Errno }

// Is returns whether both are of one kind.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && kind(t.Errno) == kind(e.Errno)
}

func kind(n syscall.Errno) syscall.Errno {
	if n == syscall.ENOSPC {
		return syscall.ENOMEM
	}
	return n
}

// failure makes the error of a negative result.
func failure(r int64, about string) error {
	return &Error{syscall.Errno(-r), about}
}
