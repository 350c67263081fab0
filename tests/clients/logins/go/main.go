// Logs in with franz-go on command: one JSON line in, one JSON line out.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type attempt struct {
	Address, Authority, Certificate, Key string
	Mechanism, User, Password, Token     string
	Topic, Value                         string
	Seconds                              float64
}

func main() {
	answers := json.NewEncoder(os.Stdout)
	commands := bufio.NewScanner(os.Stdin)
	commands.Buffer(nil, 1<<20)
	for commands.Scan() {
		var asked attempt
		err := json.Unmarshal(commands.Bytes(), &asked)
		begun := time.Now()
		if err == nil {
			err = asked.run()
		}
		result := map[string]any{"seconds": time.Since(begun).Seconds(), "error": "", "text": ""}
		if err != nil {
			result["error"], result["text"] = name(err), err.Error()
		}
		_ = answers.Encode(map[string]any{"result": result})
	}
}

// name is Kafka's name of the error where it has one. A TLS alert has the same for each reason.
func name(err error) string {
	var known *kerr.Error
	if errors.As(err, &known) {
		return known.Message
	}
	text, _, _ := strings.Cut(err.Error(), "tls: ")
	return text
}

// run produces a record and fetches it.
func (asked attempt) run() error {
	options, err := asked.options()
	if err != nil {
		return err
	}
	timeout := time.Duration(asked.Seconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	// Produce would wait for the topic's metadata until its own timeout; this tells what keeps it from them.
	if err := client.Ping(ctx); err != nil {
		return err
	}
	record := &kgo.Record{Topic: asked.Topic, Value: []byte(asked.Value)}
	if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
		return err
	}
	from := kgo.NewOffset().At(record.Offset)
	client.AddConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: {record.Partition: from}})
	fetches := client.PollFetches(ctx)
	if err := fetches.Err(); err != nil {
		return err
	}
	if found := fetches.Records(); string(found[0].Value) != asked.Value {
		return errors.New("another record is there")
	}
	return nil
}

func (asked attempt) options() ([]kgo.Opt, error) {
	config := &tls.Config{RootCAs: x509.NewCertPool()}
	authority, err := os.ReadFile(asked.Authority)
	if err != nil {
		return nil, err
	}
	config.RootCAs.AppendCertsFromPEM(authority)
	if asked.Certificate != "" {
		own, err := tls.LoadX509KeyPair(asked.Certificate, asked.Key)
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{own}
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(asked.Address), kgo.DialTLSConfig(config), kgo.AllowAutoTopicCreation(),
		kgo.RequestRetries(3),
	}
	if mechanism := asked.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options, nil
}

func (asked attempt) mechanism() sasl.Mechanism {
	switch asked.Mechanism {
	case "PLAIN":
		return plain.Auth{User: asked.User, Pass: asked.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: asked.User, Pass: asked.Password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: asked.User, Pass: asked.Password}.AsSha512Mechanism()
	case "OAUTHBEARER":
		return oauth.Auth{Token: asked.Token}.AsMechanism()
	}
	return nil
}
