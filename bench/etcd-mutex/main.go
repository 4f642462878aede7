// Takes the harness's orders (lines of JSON on stdin) for Go's concurrency.Mutex, whose keys Holdfast shares: one goroutine and
// one session for each loop. Argument: the environment as JSON, with the endpoints.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
)

type order struct {
	Do      string  `json:"do"`
	Name    string  `json:"name"`
	Loops   int     `json:"loops"`
	Seconds float64 `json:"seconds"`
	File    string  `json:"file"`
	// Calls that fail are made again: members are stopped and killed meanwhile.
	Patient bool `json:"patient"`
}

const ttlSeconds = 30
const graceMs = 60_000

func main() {
	var env struct {
		Endpoints string `json:"endpoints"`
	}
	check(json.Unmarshal([]byte(os.Args[len(os.Args)-1]), &env))
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(env.Endpoints, ",")})
	check(err)
	_, err = client.Get(context.Background(), "warm")
	check(err)
	answer(map[string]any{})
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var given order
		check(json.Unmarshal(lines.Bytes(), &given))
		result, err := slice(client, given)
		if err != nil {
			result = map[string]any{"error": err.Error()}
		}
		answer(result)
	}
}

func slice(client *clientv3.Client, given order) (map[string]any, error) {
	sessions := make([]*concurrency.Session, given.Loops)
	for loop := range sessions {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(ttlSeconds))
		if err != nil {
			return nil, err
		}
		defer session.Close()
		sessions[loop] = session
	}
	startMs, startCPU := nowMs(), cpuUs()
	untilMs := startMs + given.Seconds*1000
	logs := make([][]float64, given.Loops)
	counts := make([]int, given.Loops)
	errs := make([]error, given.Loops)
	var running sync.WaitGroup
	for loop := range sessions {
		running.Add(1)
		go func() {
			defer running.Done()
			name := given.Name
			if given.Do == "cycles" {
				name = fmt.Sprintf("%s-%d-%d", name, os.Getpid(), loop)
			}
			for askedMs := nowMs(); askedMs < untilMs; askedMs = nowMs() {
				mutex := concurrency.NewMutex(sessions[loop], name)
				if errs[loop] = given.try(untilMs, mutex.Lock); errs[loop] != nil {
					return
				}
				if given.Do == "sections" {
					enteredMs := nowMs()
					runtime.Gosched()
					fence := float64(mutex.Header().Revision)
					logs[loop] = append(logs[loop], askedMs, enteredMs, nowMs(), float64(loop), fence)
				}
				if errs[loop] = given.try(untilMs, mutex.Unlock); errs[loop] != nil {
					return
				}
				counts[loop]++
			}
		}()
	}
	running.Wait()
	seconds, cpu := (nowMs()-startMs)/1000, cpuUs()-startCPU
	cycles := 0
	for loop, err := range errs {
		if err != nil {
			return nil, err
		}
		cycles += counts[loop]
	}
	if given.Do == "sections" {
		if err := write(given.File, logs); err != nil {
			return nil, err
		}
	}
	return map[string]any{"cycles": cycles, "cpuUs": cpu, "seconds": seconds, "untilMs": untilMs}, nil
}

// Both calls may be made again: a session has one key for a lock, which is found again, or deleted again.
func (given order) try(untilMs float64, call func(context.Context) error) error {
	for {
		err := call(context.Background())
		if err == nil || !given.Patient || err == concurrency.ErrSessionExpired || nowMs() > untilMs+graceMs {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func write(file string, logs [][]float64) error {
	var bytes []byte
	for _, log := range logs {
		for _, number := range log {
			bytes = binary.LittleEndian.AppendUint64(bytes, math.Float64bits(number))
		}
	}
	return os.WriteFile(file, bytes, 0o600)
}

// The machine's monotonic clock, which all processes share.
func nowMs() float64 {
	const clockMonotonic = 1
	var now syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&now)), 0)
	if failed != 0 {
		check(failed)
	}
	return float64(now.Sec)*1e3 + float64(now.Nsec)/1e6
}

func cpuUs() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	us := func(of syscall.Timeval) float64 { return float64(of.Sec)*1e6 + float64(of.Usec) }
	return us(usage.Utime) + us(usage.Stime)
}

func answer(result map[string]any) {
	line, err := json.Marshal(map[string]any{"answer": result})
	check(err)
	fmt.Println(string(line))
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
