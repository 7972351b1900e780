// Package gin has middleware of gin: sessions, limits of rates, and a cache of responses.
package gin

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"tslab"
	"tslab/web"
)

// Sessions gives each request its session, which Session returns, and saves it when the request is done. A request that
// fails to be saved has an error in the context.
func Sessions(sessions *tslab.Sessions, how web.SessionOptions) gin.HandlerFunc {
	return func(c *gin.Context) {
		session, err := web.Begin(sessions, how, c.Writer, c.Request)
		if err != nil {
			_ = c.AbortWithError(http.StatusServiceUnavailable, err)
			return
		}
		c.Request = session.Request()
		c.Next()
		if err := session.Save(); err != nil {
			_ = c.Error(err)
		}
	}
}

// Session returns the request's session.
func Session(c *gin.Context) *web.Session { return web.SessionOf(c.Request) }

// Limit refuses requests whose key, as the client's address, has no tokens, with 429.
func Limit(limiter *tslab.Limiter, key func(*gin.Context) string) gin.HandlerFunc {
	return func(c *gin.Context) {
		retry, err := limiter.Take(key(c))
		if err != nil {
			_ = c.Error(err) // a limiter that fails lets pass
		}
		if retry > 0 {
			c.Header("Retry-After", web.RetryAfter(retry))
			c.AbortWithStatus(http.StatusTooManyRequests)
		}
	}
}

// Address is the client's address, as gin's trusted proxies tell it.
func Address(c *gin.Context) string { return c.ClientIP() }
