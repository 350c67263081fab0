// Package lines has what the drivers share: one JSON line in, one JSON line out.
package lines

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
)

// Command is what the tests ask for.
type Command struct {
	Op, Name, ID, Topic, Group, Source, Target string
	Partition                                  int32
	Partitions                                 []int32
	Values                                     []string
	Offsets                                    map[string]int64
	Committed                                  bool
	Timeout                                    int
}

// Seen is what a reader has read since it was asked last, and where it is.
func Seen(records [][]any, positions map[int32]int64) map[string]any {
	return map[string]any{"records": records, "positions": positions}
}

// Serve answers until the input ends. The errors by which the library tells that it is fenced have one name.
func Serve(run func(Command) (any, error), fenced ...error) {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<20)
	answers := json.NewEncoder(os.Stdout)
	for input.Scan() {
		var asked Command
		err := json.Unmarshal(input.Bytes(), &asked)
		var result any
		if err == nil {
			result, err = run(asked)
		}
		if err != nil {
			_ = answers.Encode(map[string]any{"error": kind(err, fenced), "message": err.Error()})
		} else {
			_ = answers.Encode(map[string]any{"result": result})
		}
	}
}

func kind(err error, fenced []error) string {
	for _, one := range fenced {
		if errors.Is(err, one) {
			return "FencedProducer"
		}
	}
	return "Error"
}
