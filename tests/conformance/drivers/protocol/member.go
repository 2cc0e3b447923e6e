package protocol

import (
	"slices"
	"sync"
)

// Seen is what a member was given and what it read.
type Seen struct {
	mutex   sync.Mutex
	events  []map[string][]int32
	records []map[string]int64
	err     error
}

// Assigned says that partitions came.
func (s *Seen) Assigned(partitions ...int32) { s.tell("assigned", partitions) }

// Revoked says that partitions were given up.
func (s *Seen) Revoked(partitions ...int32) { s.tell("revoked", partitions) }

// Lost says that partitions were another's already.
func (s *Seen) Lost(partitions ...int32) { s.tell("lost", partitions) }

func (s *Seen) tell(what string, partitions []int32) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	// A nil slice would be null.
	told := append([]int32{}, partitions...)
	slices.Sort(told)
	s.events = append(s.events, map[string][]int32{what: told})
}

// Read says that a record was read.
func (s *Seen) Read(partition int32, offset int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.records = append(s.records, map[string]int64{"partition": int64(partition), "offset": offset})
}

// Fail says what ended the member.
func (s *Seen) Fail(err error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.err = err
}

func (s *Seen) answer() (map[string]any, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	events := append([]map[string][]int32{}, s.events...)
	records := append([]map[string]int64{}, s.records...)
	return map[string]any{"events": events, "records": records}, s.err
}

// Member is one that has joined: it polls by itself until it leaves.
type Member interface {
	Commit(topic string, offsets map[int32]int64) error
	Leave() error
}

// Joiner is a client that can be a member of a group. Committed answers an offset for each of the command's
// partitions, below 0 for none.
type Joiner interface {
	Join(*Command, *Seen) (Member, error)
	Committed(*Command) ([]int64, error)
}

// The one member of this driver.
var (
	member Member
	seen   *Seen
)

func group(client Joiner, c *Command) (map[string]any, error) {
	var err error
	switch c.Op {
	case "join":
		seen = &Seen{}
		member, err = client.Join(c, seen)
	case "member":
		return seen.answer()
	case "commit":
		offsets := map[int32]int64{}
		for partition, offset := range c.Offsets {
			if offset != nil {
				offsets[int32(partition)] = *offset
			}
		}
		err = member.Commit(c.Topic, offsets)
	case "leave":
		err = member.Leave()
	case "committed":
		found, err := client.Committed(c)
		offsets := make([]*int64, len(found))
		for i := range found {
			if found[i] >= 0 {
				offsets[i] = &found[i]
			}
		}
		return map[string]any{"offsets": offsets}, err
	}
	return map[string]any{}, err
}
