// Producers of franz-go at a pace; what becomes of each record is printed:
// [number, partition, offset, error, when it was told, when it was sent].
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/twmb/franz-go/pkg/kgo"
)

const toldEvery = 20 * time.Millisecond

type command struct {
	Op, Name, Topic string
	Partitions      int
	Rate            int
}

var (
	printing sync.Mutex
	output   = json.NewEncoder(os.Stdout)
)

// show prints a line: answers and outcomes share the output.
func show(line map[string]any) {
	printing.Lock()
	defer printing.Unlock()
	_ = output.Encode(line)
}

// now is the seconds of CLOCK_MONOTONIC, which Python's time.monotonic shows.
func now() float64 {
	var at syscall.Timespec
	_, _, failure := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, 1, uintptr(unsafe.Pointer(&at)), 0)
	if failure != 0 {
		panic(failure)
	}
	return float64(at.Sec) + float64(at.Nsec)/1e9
}

func main() {
	senders := map[string]*sender{}
	commands := bufio.NewScanner(os.Stdin)
	for commands.Scan() {
		var asked command
		var result any
		err := json.Unmarshal(commands.Bytes(), &asked)
		switch {
		case err != nil:
		case asked.Op == "start":
			senders[asked.Name], err = start(os.Args[1], asked)
		default:
			result, err = senders[asked.Name].end()
		}
		if err != nil {
			show(map[string]any{"error": "Go", "message": err.Error()})
		} else {
			show(map[string]any{"result": result})
		}
	}
}

// sender is one producer: idempotent, five requests to a broker at a time, by its defaults.
type sender struct {
	asked    command
	client   *kgo.Client
	ending   chan struct{}
	ended    chan struct{}
	sent     int
	mutex    sync.Mutex
	outcomes [][]any
	told     time.Time
}

func start(bootstrap string, asked command) (*sender, error) {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(strings.Split(bootstrap, ",")...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	made := &sender{asked: asked, client: client, ending: make(chan struct{}), ended: make(chan struct{})}
	go made.run()
	return made, nil
}

func (s *sender) run() {
	defer close(s.ended)
	pace := time.NewTicker(time.Second / time.Duration(s.asked.Rate))
	defer pace.Stop()
	for {
		select {
		case <-s.ending:
			return
		case <-pace.C:
		}
		number, when := s.sent, now()
		s.sent++
		record := &kgo.Record{
			Topic:     s.asked.Topic,
			Partition: int32(number % s.asked.Partitions),
			Value:     fmt.Appendf(nil, "%s:%d", s.asked.Name, number),
		}
		s.client.Produce(context.Background(), record, func(done *kgo.Record, err error) {
			s.outcome(number, done, err, when)
		})
		s.tell(false)
	}
}

func (s *sender) outcome(number int, done *kgo.Record, err error, when float64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err != nil {
		s.outcomes = append(s.outcomes, []any{number, -1, -1, err.Error(), now(), when})
	} else {
		s.outcomes = append(s.outcomes, []any{number, done.Partition, done.Offset, nil, now(), when})
	}
}

func (s *sender) tell(atOnce bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.outcomes) == 0 || !(atOnce || time.Since(s.told) > toldEvery) {
		return
	}
	show(map[string]any{"member": s.asked.Name, "outcomes": s.outcomes})
	s.outcomes, s.told = nil, time.Now()
}

// end says how many were sent; each of them has its outcome.
func (s *sender) end() (int, error) {
	close(s.ending)
	<-s.ended
	err := s.client.Flush(context.Background())
	s.client.Close()
	s.tell(true)
	return s.sent, err
}
