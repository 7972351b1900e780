// Package echo has middleware of echo: sessions, and limits of rates. Its cache of responses is
// echo.WrapMiddleware(web.Cache(...)).
package echo

import (
	"net/http"

	"github.com/labstack/echo/v4"

	"tslab"
	"tslab/web"
)

// Sessions gives each request its session, which Session returns, and saves it when the request is done.
func Sessions(sessions *tslab.Sessions, how web.SessionOptions) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			session, err := web.Begin(sessions, how, c.Response(), c.Request())
			if err != nil {
				return echo.NewHTTPError(http.StatusServiceUnavailable).SetInternal(err)
			}
			c.SetRequest(session.Request())
			if err := next(c); err != nil {
				return err
			}
			return session.Save()
		}
	}
}

// Session returns the request's session.
func Session(c echo.Context) *web.Session { return web.SessionOf(c.Request()) }

// Limit refuses requests whose key, as the client's address, has no tokens, with 429.
func Limit(limiter *tslab.Limiter, key func(echo.Context) string) echo.MiddlewareFunc {
	return func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			retry, err := limiter.Take(key(c))
			if err != nil {
				c.Logger().Error(err) // a limiter that fails lets pass
			}
			if retry > 0 {
				c.Response().Header().Set("Retry-After", web.RetryAfter(retry))
				return echo.NewHTTPError(http.StatusTooManyRequests)
			}
			return next(c)
		}
	}
}

// Address is the client's address, as echo's IPExtractor tells it.
func Address(c echo.Context) string { return c.RealIP() }
