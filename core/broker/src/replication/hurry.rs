//! A leader that has nothing to say keeps the question for as long as `replica.fetch.wait.max.ms`, and answers nothing
//! else meanwhile on that connection. What is new to ask for may be a partition that it has just begun to lead, and where
//! producers wait: then it is asked on another connection.

use std::time::Duration;

/// How long an answer may still take once there is something new to ask for.
const ANSWER_MAX: Duration = Duration::from_millis(5);

/// How long a leader is left in peace after that, and twice as long each time that no answer came meanwhile: what is
/// new all the time does not keep answers from arriving, however long they take.
const PEACE: Duration = Duration::from_millis(100);
const PEACE_MAX: Duration = Duration::from_secs(30);

/// When a question to one leader is given up, because it is in the way of something new.
///
/// Times are those of [`base::Now::elapsed`].
#[derive(Debug)]
pub struct Hurry {
    /// Since when there is something that the question on its way does not ask for.
    since: Option<Duration>,
    /// Until then the leader is left in peace.
    peace_until: Duration,
    peace: Duration,
}

impl Default for Hurry {
    fn default() -> Self {
        Self { since: None, peace_until: Duration::ZERO, peace: PEACE }
    }
}

impl Hurry {
    /// There is something new, and a question on its way that does not ask for it. When that is to be given up.
    pub fn on_news(&mut self, now: Duration) -> Duration {
        let since = *self.since.get_or_insert(now);
        self.due(since)
    }

    /// When the question is to be given up; `None` if nothing is new.
    pub fn due_at(&self) -> Option<Duration> {
        self.since.map(|since| self.due(since))
    }

    fn due(&self, since: Duration) -> Duration {
        since.max(self.peace_until) + ANSWER_MAX
    }

    /// It was given up, and the leader is asked for all of it.
    pub fn on_given_up(&mut self, now: Duration) {
        self.since = None;
        self.peace_until = now + self.peace;
        self.peace = (self.peace * 2).min(PEACE_MAX);
    }

    /// It was answered: the next question asks for all of it.
    pub fn on_answer(&mut self) {
        (self.since, self.peace) = (None, PEACE);
    }

    /// There is no question on its way any more, and it was not this that ended it.
    pub fn on_disconnected(&mut self) {
        self.since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn what_is_new_waits_a_moment_and_longer_where_it_is_new_all_the_time() {
        let mut hurry = Hurry::default();
        assert_eq!(hurry.due_at(), None);
        hurry.on_news(ms(1000));
        hurry.on_news(ms(1003));
        assert_eq!(hurry.due_at(), Some(ms(1005)), "what came first does not wait for what comes behind it");
        hurry.on_given_up(ms(1005));
        assert_eq!(hurry.due_at(), None, "the new question asks for it");
        // No answer comes.
        for (news, due, given_up) in [(1010, 1110, 1110), (1300, 1315, 1315), (1320, 1720, 1720)] {
            hurry.on_news(ms(news));
            assert_eq!(hurry.due_at(), Some(ms(due)));
            hurry.on_given_up(ms(given_up));
        }
        hurry.on_answer();
        hurry.on_news(ms(10_000));
        assert_eq!(hurry.due_at(), Some(ms(10_005)));
        hurry.on_given_up(ms(10_005));
        hurry.on_news(ms(10_006));
        assert_eq!(hurry.due_at(), Some(ms(10_110)), "an answer came: it begins anew");
        hurry.on_disconnected();
        assert_eq!(hurry.due_at(), None);
    }

    #[test]
    fn a_leader_is_left_in_peace_for_half_a_minute_at_most() {
        let mut hurry = Hurry::default();
        for _ in 0..40 {
            hurry.on_given_up(ms(0));
        }
        hurry.on_news(ms(1));
        assert_eq!(hurry.due_at(), Some(PEACE_MAX + ANSWER_MAX));
    }
}
