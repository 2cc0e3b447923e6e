package main

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"vltava/conformance/protocol"
)

type member struct {
	client *kgo.Client
	// Ends the polling.
	stop  context.CancelFunc
	ended chan struct{}
}

var classic = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
}

// Of KIP-848 it names the server's assignors by its own.
var byServer = map[string]kgo.GroupBalancer{"range": kgo.RangeBalancer(), "uniform": kgo.StickyBalancer()}

func (c *client) Join(command *protocol.Command, seen *protocol.Seen) (protocol.Member, error) {
	reset := kgo.NewOffset().AtStart()
	if command.Reset == "latest" {
		reset = kgo.NewOffset().AtEnd()
	}
	tells := func(tell func(...int32)) func(context.Context, *kgo.Client, map[string][]int32) {
		return func(_ context.Context, _ *kgo.Client, partitions map[string][]int32) {
			tell(partitions[command.Topic]...)
		}
	}
	options := append([]kgo.Opt{
		kgo.ConsumerGroup(command.Group),
		kgo.ConsumeResetOffset(reset),
		kgo.DisableAutoCommit(),
		kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.OnPartitionsAssigned(tells(seen.Assigned)),
		kgo.OnPartitionsRevoked(tells(seen.Revoked)),
		kgo.OnPartitionsLost(tells(seen.Lost)),
	}, c.base...)
	if command.Pattern != nil {
		options = append(options, kgo.ConsumeRegex(), kgo.ConsumeTopics(*command.Pattern))
	} else {
		options = append(options, kgo.ConsumeTopics(command.Topic))
	}
	if command.Protocol == "classic" {
		options = append(options,
			kgo.Balancers(classic[command.Assignor]),
			kgo.SessionTimeout(time.Duration(command.SessionMs)*time.Millisecond),
			kgo.HeartbeatInterval(time.Duration(command.HeartbeatMs)*time.Millisecond))
	} else {
		options = append(options, kgo.ServerSideBalancer(), kgo.Balancers(byServer[command.Assignor]))
	}
	if command.Instance != nil {
		options = append(options, kgo.InstanceID(*command.Instance))
	}
	joined, err := kgo.NewClient(options...)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	m := &member{joined, stop, make(chan struct{})}
	go m.poll(ctx, seen)
	return m, nil
}

func (m *member) poll(ctx context.Context, seen *protocol.Seen) {
	defer close(m.ended)
	for ctx.Err() == nil {
		fetches := m.client.PollFetches(ctx)
		fetches.EachError(func(_ string, _ int32, err error) {
			if !errors.Is(err, context.Canceled) {
				seen.Fail(err)
			}
		})
		fetches.EachRecord(func(r *kgo.Record) { seen.Read(r.Partition, r.Offset) })
	}
}

func (m *member) Commit(topic string, offsets map[int32]int64) error {
	ctx, cancel := patience()
	defer cancel()
	at := map[int32]kgo.EpochOffset{}
	for partition, offset := range offsets {
		at[partition] = kgo.EpochOffset{Epoch: -1, Offset: offset}
	}
	var failed error
	done := func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, answer *kmsg.OffsetCommitResponse, err error) {
		failed = err
		if err != nil {
			return
		}
		for _, topic := range answer.Topics {
			for _, partition := range topic.Partitions {
				failed = errors.Join(failed, kerr.ErrorForCode(partition.ErrorCode))
			}
		}
	}
	m.client.CommitOffsetsSync(ctx, map[string]map[int32]kgo.EpochOffset{topic: at}, done)
	return failed
}

func (m *member) Leave() error {
	ctx, cancel := patience()
	defer cancel()
	m.stop()
	<-m.ended
	err := m.client.LeaveGroupContext(ctx)
	m.client.Close()
	return err
}

func (c *client) Committed(command *protocol.Command) ([]int64, error) {
	ctx, cancel := patience()
	defer cancel()
	found, err := c.admin.FetchOffsets(ctx, command.Group)
	if err != nil {
		return nil, err
	}
	offsets := make([]int64, command.Partitions)
	for i := range offsets {
		offsets[i] = -1
		if at, exists := found.Lookup(command.Topic, int32(i)); exists {
			if at.Err != nil {
				return nil, at.Err
			}
			offsets[i] = at.At
		}
	}
	return offsets, nil
}
