// A process of redsync that takes turns on one lock: see ../take-turns.mjs.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

type order struct {
	Servers []struct {
		Host     string
		Port     int
		Password string
	}
	Name                       string
	TtlMs, SectionMs, ThinkMs float64
}

// The machine's monotonic clock, which other processes read too.
func say(word string) {
	var at syscall.Timespec
	syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	fmt.Printf("%s %d\n", word, at.Nano())
}

func spread(ms float64) time.Duration {
	return time.Duration(ms * (0.5 + rand.Float64()) * float64(time.Millisecond))
}

func main() {
	var o order
	if err := json.Unmarshal([]byte(os.Args[1]), &o); err != nil {
		panic(err)
	}
	var pools []redis.Pool
	for _, s := range o.Servers {
		client := goredislib.NewClient(&goredislib.Options{Addr: fmt.Sprintf("%s:%d", s.Host, s.Port), Password: s.Password})
		pools = append(pools, goredis.NewPool(client))
	}
	var over atomic.Bool
	go func() {
		io.ReadAll(os.Stdin)
		over.Store(true)
	}()
	sync := redsync.New(pools...)
	for !over.Load() {
		say("want")
		mutex := sync.NewMutex(o.Name, redsync.WithExpiry(time.Duration(o.TtlMs)*time.Millisecond),
			redsync.WithTries(1000000), redsync.WithRetryDelay(40*time.Millisecond))
		if err := mutex.Lock(); err != nil {
			continue
		}
		say("in")
		time.Sleep(spread(o.SectionMs))
		held := time.Now().Before(mutex.Until())
		say("out")
		if ok, err := mutex.Unlock(); !ok || err != nil || !held {
			say("lost")
		}
		time.Sleep(spread(o.ThinkMs))
	}
}
