// Package protocol is what the Go drivers share: the line protocol of ../PROTOCOL.md, payloads, digests.
package protocol

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"os"
	"runtime/debug"
	"strconv"
	"time"
)

// Patience is longer than any command of the suite needs.
const Patience = 90 * time.Second

// FetchBytesMax is above every record of the suite.
const FetchBytesMax = 4 << 20

// Bytes are in hexadecimal, nil is null.
type Bytes []byte

// MarshalJSON writes them.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if b == nil {
		return []byte("null"), nil
	}
	return json.Marshal(hex.EncodeToString(b))
}

// UnmarshalJSON reads them.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	var s *string
	if err := json.Unmarshal(text, &s); err != nil || s == nil {
		return err
	}
	decoded, err := hex.DecodeString(*s)
	*b = decoded
	return err
}

// Header is a name and its value.
type Header struct {
	Name  string
	Value Bytes
}

// MarshalJSON writes it as a pair.
func (h Header) MarshalJSON() ([]byte, error) { return json.Marshal([]any{h.Name, h.Value}) }

// UnmarshalJSON reads the pair.
func (h *Header) UnmarshalJSON(text []byte) error {
	return json.Unmarshal(text, &[]any{&h.Name, &h.Value})
}

// Record is one of produce or consume.
type Record struct {
	Offset    int64    `json:"offset"`
	Timestamp *int64   `json:"timestamp"`
	Key       Bytes    `json:"key"`
	Value     Bytes    `json:"value"`
	Headers   []Header `json:"headers"`
}

// Command has the arguments of every command.
type Command struct {
	Op          string
	Topic       string
	Partitions  int32
	Configs     map[string]string
	Partition   int32
	Acks        string
	Idempotent  bool
	Compression string
	Records     []Record
	Keys        []Bytes
	Seed        int64
	Count       int
	Sizes       []int
	Timestamp   *int64
	Offset      *int64
	// 0 is the client's default.
	BatchBytesMax int `json:"batch_bytes_max"`
	Group         string
	Protocol      string
	Assignor      string
	Instance      *string
	Pattern       *string
	Reset         string
	SessionMs     int64 `json:"session_ms"`
	HeartbeatMs   int64 `json:"heartbeat_ms"`
	// By partition.
	Offsets []*int64
}

// ToSend are the records of produce, or those that produce_many makes.
func (c *Command) ToSend() []Record {
	if c.Op == "produce" {
		return c.Records
	}
	records := make([]Record, c.Count)
	for i := range records {
		records[i].Key = []byte(strconv.Itoa(i))
		records[i].Value = payload(c.Seed, i, c.Sizes[i%len(c.Sizes)])
		if c.Timestamp != nil {
			at := *c.Timestamp + int64(i)
			records[i].Timestamp = &at
		}
	}
	return records
}

func payload(seed int64, index, size int) []byte {
	text := make([]byte, 0, size+64)
	for block := 0; len(text) < size; block++ {
		sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d/%d", seed, index, block))
		text = hex.AppendEncode(text, sum[:16])
		text = append(text, "................................"...)
	}
	return text[:size]
}

// Placer is a client that puts a key where Java's puts it.
type Placer interface {
	Place(*Command) ([]int32, error)
}

// Client is what a driver has to do. Send answers the offsets in the order of the records.
type Client interface {
	Create(*Command) error
	Partitions(*Command) (int, error)
	Send(*Command, []Record) ([]int64, error)
	Read(*Command, func(Record)) error
	OffsetForTime(*Command) (int64, error)
	Offsets(*Command) (start, end int64, err error)
}

// Serve answers commands until stdin ends.
func Serve(name string, client Client) {
	out := json.NewEncoder(os.Stdout)
	say := func(answer any) {
		if err := out.Encode(answer); err != nil {
			os.Exit(1)
		}
	}
	say(map[string]any{"ready": name})
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err == io.EOF {
			return
		}
		var command Command
		var answer any
		if err == nil {
			err = json.Unmarshal(line, &command)
		}
		if err == nil {
			answer, err = run(client, &command)
		}
		if err != nil {
			answer = map[string]any{"error": err.Error()}
		}
		say(answer)
	}
}

func run(client Client, c *Command) (map[string]any, error) {
	switch c.Op {
	case "create":
		return map[string]any{}, client.Create(c)
	case "metadata":
		partitions, err := client.Partitions(c)
		return map[string]any{"partitions": partitions}, err
	case "produce", "produce_many":
		return send(client, c)
	case "place":
		if placer, can := client.(Placer); can {
			partitions, err := placer.Place(c)
			return map[string]any{"partitions": partitions}, err
		}
	case "consume":
		records := []Record{}
		err := client.Read(c, func(r Record) { records = append(records, r) })
		return map[string]any{"records": records}, err
	case "consume_many":
		return digest(client, c)
	case "offset_for_time":
		offset, err := client.OffsetForTime(c)
		if offset < 0 {
			return map[string]any{"offset": nil}, err
		}
		return map[string]any{"offset": offset}, err
	case "offsets":
		start, end, err := client.Offsets(c)
		return map[string]any{"start": start, "end": end}, err
	case "join", "member", "commit", "committed", "leave":
		if joiner, can := client.(Joiner); can {
			return group(joiner, c)
		}
	}
	return nil, fmt.Errorf("unknown op %q", c.Op)
}

func send(client Client, c *Command) (map[string]any, error) {
	found, err := client.Send(c, c.ToSend())
	if err != nil {
		return nil, err
	}
	offsets := make([]*int64, len(found))
	for i := range found {
		if c.Acks != "0" {
			offsets[i] = &found[i]
		}
	}
	if c.Op == "produce" {
		return map[string]any{"offsets": offsets}, nil
	}
	return map[string]any{"first": offsets[0], "last": offsets[len(offsets)-1]}, nil
}

func digest(client Client, c *Command) (map[string]any, error) {
	sum, count := sha256.New(), 0
	var first, last *int64
	err := client.Read(c, func(r Record) {
		sum.Write(binary.BigEndian.AppendUint64(nil, uint64(r.Offset)))
		add(sum, r.Key)
		add(sum, r.Value)
		if first == nil {
			first = &r.Offset
		}
		last = &r.Offset
		count++
	})
	answer := map[string]any{"first": first, "last": last, "count": count}
	answer["digest"] = hex.EncodeToString(sum.Sum(nil))
	return answer, err
}

func add(sum hash.Hash, part Bytes) {
	length := int32(-1)
	if part != nil {
		length = int32(len(part))
	}
	sum.Write(binary.BigEndian.AppendUint32(nil, uint32(length)))
	sum.Write(part)
}

// Version of a module that the driver was built with.
func Version(module string) string {
	built, _ := debug.ReadBuildInfo()
	for _, used := range built.Deps {
		if used.Path == module {
			return used.Version
		}
	}
	return "of unknown version"
}
