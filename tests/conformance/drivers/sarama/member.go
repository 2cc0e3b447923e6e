package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"

	"vltava/conformance/protocol"
)

type member struct {
	group   sarama.ConsumerGroup
	seen    *protocol.Seen
	session atomic.Pointer[sarama.ConsumerGroupSession]
	// Ends the loop of sessions.
	stop  context.CancelFunc
	ended chan struct{}
}

var assignors = map[string]func() sarama.BalanceStrategy{
	"range":              sarama.NewBalanceStrategyRange,
	"cooperative-sticky": sarama.NewBalanceStrategyCooperativeSticky,
}

func (c *client) Join(command *protocol.Command, seen *protocol.Seen) (protocol.Member, error) {
	config := c.config()
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	if command.Reset == "latest" {
		config.Consumer.Offsets.Initial = sarama.OffsetNewest
	}
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{assignors[command.Assignor]()}
	config.Consumer.Group.Session.Timeout = time.Duration(command.SessionMs) * time.Millisecond
	config.Consumer.Group.Heartbeat.Interval = time.Duration(command.HeartbeatMs) * time.Millisecond
	if command.Instance != nil {
		config.Consumer.Group.InstanceId = *command.Instance
	}
	group, err := sarama.NewConsumerGroup(brokers(), command.Group, config)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{group: group, seen: seen, stop: stop, ended: make(chan struct{})}
	go m.run(ctx, command.Topic)
	go func() {
		for err := range group.Errors() {
			fmt.Fprintln(os.Stderr, err)
		}
	}()
	return m, nil
}

// A session ends with each rebalance that takes all partitions.
func (m *member) run(ctx context.Context, topic string) {
	defer close(m.ended)
	for ctx.Err() == nil {
		if err := m.group.Consume(ctx, []string{topic}, m); err != nil && ctx.Err() == nil {
			m.seen.Fail(err)
			return
		}
	}
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.session.Store(&session)
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.seen.Assigned(claim.Partition())
	defer m.seen.Revoked(claim.Partition())
	for message := range claim.Messages() {
		m.seen.Read(message.Partition, message.Offset)
	}
	return nil
}

// Commit has no error to tell: those go to stderr.
func (m *member) Commit(topic string, offsets map[int32]int64) error {
	session := m.session.Load()
	if session == nil {
		return errors.New("there is no session")
	}
	for partition, offset := range offsets {
		(*session).MarkOffset(topic, partition, offset, "")
	}
	(*session).Commit()
	return nil
}

func (m *member) Leave() error {
	m.stop()
	<-m.ended
	return m.group.Close()
}

func (c *client) Committed(command *protocol.Command) ([]int64, error) {
	admin, err := sarama.NewClusterAdmin(brokers(), c.config())
	if err != nil {
		return nil, err
	}
	defer admin.Close()
	partitions := make([]int32, command.Partitions)
	for i := range partitions {
		partitions[i] = int32(i)
	}
	found, err := admin.ListConsumerGroupOffsets(command.Group, map[string][]int32{command.Topic: partitions})
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, len(partitions))
	for i := range offsets {
		block := found.GetBlock(command.Topic, int32(i))
		if block == nil {
			return nil, fmt.Errorf("%s-%d was not answered", command.Topic, i)
		}
		if block.Err != sarama.ErrNoError {
			return nil, block.Err
		}
		offsets[i] = block.Offset
	}
	return offsets, nil
}
