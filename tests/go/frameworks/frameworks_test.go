// Frameworks with a pool behind them, each as its users write it. ../run.py starts the daemon.
package tslabframeworks

import (
	"context"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/gin-gonic/gin"
	"github.com/labstack/echo/v4"

	"tslab"
	tslabecho "tslab/echo"
	tslabgin "tslab/gin"
	"tslab/scsstore"
	"tslab/web"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func visit(t *testing.T, client *http.Client, url string, want int, body string) {
	t.Helper()
	response := must(client.Get(url))
	defer response.Body.Close()
	text := string(must(io.ReadAll(response.Body)))
	if response.StatusCode != want || want == 200 && text != body {
		t.Fatal(response.StatusCode, text)
	}
}

// serve starts two servers, as two workers are, and asks them in turn.
func serve(t *testing.T, handler func() http.Handler) {
	client := &http.Client{Jar: must(cookiejar.New(nil))}
	one, two := httptest.NewServer(handler()), httptest.NewServer(handler())
	defer one.Close()
	defer two.Close()
	visit(t, client, one.URL, 200, "1")
	visit(t, client, two.URL, 200, "2") // cookies are by host, and not by port
	visit(t, client, one.URL, 200, "3")
	visit(t, client, two.URL, 429, "")
}

func parts(t *testing.T, name string) (*tslab.Sessions, *tslab.Limiter) {
	pool := must(tslab.Open(os.Getenv("TSLAB_POOL")))
	return must(tslab.NewSessions(pool, name, 0)), must(tslab.NewLimiter(pool, name+" limits", 0.001, 3))
}

func next(s *web.Session) string {
	n, _ := s.Get("visits").(float64)
	if err := s.Set("visits", n+1); err != nil {
		panic(err)
	}
	return string(rune('1' + int(n)))
}

func TestGin(t *testing.T) {
	gin.SetMode(gin.TestMode)
	serve(t, func() http.Handler {
		sessions, limiter := parts(t, "gin")
		r := gin.New()
		r.Use(tslabgin.Limit(limiter, tslabgin.Address), tslabgin.Sessions(sessions, web.SessionOptions{Insecure: true}))
		r.GET("/", func(c *gin.Context) { c.String(200, next(tslabgin.Session(c))) })
		return r
	})
}

func TestEcho(t *testing.T) {
	serve(t, func() http.Handler {
		sessions, limiter := parts(t, "echo")
		e := echo.New()
		e.Use(tslabecho.Limit(limiter, tslabecho.Address), tslabecho.Sessions(sessions, web.SessionOptions{Insecure: true}))
		e.GET("/", func(c echo.Context) error { return c.String(200, next(tslabecho.Session(c))) })
		return e
	})
}

func TestScs(t *testing.T) {
	var _ scs.IterableStore = scsstore.New(nil)
	serve(t, func() http.Handler {
		sessions, limiter := parts(t, "scs")
		manager := scs.New()
		manager.Lifetime = time.Hour
		manager.Store = scsstore.New(sessions)
		return web.Limit(limiter, web.Address, nil)(manager.LoadAndSave(http.HandlerFunc(
			func(w http.ResponseWriter, r *http.Request) {
				n := manager.GetInt(r.Context(), "visits")
				manager.Put(r.Context(), "visits", n+1)
				io.WriteString(w, string(rune('1'+n)))
			})))
	})
	sessions, _ := parts(t, "scs")
	manager := scs.New()
	manager.Store = scsstore.New(sessions)
	n := 0
	if err := manager.Iterate(context.Background(), func(context.Context) error { n++; return nil }); err != nil || n != 1 {
		t.Fatal(n, err)
	}
}
