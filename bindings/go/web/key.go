package web

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"
)

const keyMax = 200

// digest joins parts into one key. In place of a key that is too long it returns its hash.
func digest(parts []string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteString(strconv.Itoa(len(part)) + ":" + part)
	}
	if b.Len() <= keyMax {
		return b.String()
	}
	sum := sha256.Sum256([]byte(b.String()))
	return hex.EncodeToString(sum[:])
}
