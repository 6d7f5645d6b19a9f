//! Cost of a session.

use agent_client_protocol_schema::v1::UsageUpdate;
use contract::payloads::ContextUse;

/// Agents report cumulative totals; the cost of a turn is the difference.
#[derive(Debug, Default)]
pub struct Cost {
    /// Whether the session is older than this run. Its first total is then not a cost of this run.
    pub is_resumed: bool,
    reported_total: Option<f64>,
    total: f64,
    turn: f64,
    context: Option<ContextUse>,
}

impl Cost {
    pub fn begin_turn(&mut self) {
        self.turn = 0.0;
    }

    pub fn record(&mut self, usage: &UsageUpdate) {
        self.context = Some(ContextUse { used: usage.used, size: usage.size });
        let Some(cost) = usage.cost.as_ref().filter(|cost| cost.currency.eq_ignore_ascii_case("usd")) else {
            return;
        };
        let previous = self.reported_total.replace(cost.amount);
        let spent = match previous {
            None if self.is_resumed => 0.0,
            // A total that shrinks was restarted.
            Some(previous) if previous <= cost.amount => cost.amount - previous,
            _ => cost.amount,
        };
        self.turn += spent;
        self.total += spent;
    }

    /// Discards the cost so far, which belongs to an earlier run.
    pub fn reset(&mut self) {
        (self.turn, self.total) = (0.0, 0.0);
    }

    /// Cost of this turn and of this run, in US dollars.
    pub fn usd(&self) -> (f64, f64) {
        (self.turn, self.total)
    }

    /// Usage of the context window, if the agent reported it.
    pub fn context(&self) -> Option<ContextUse> {
        self.context
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent_client_protocol_schema::v1;

    fn report(cost: &mut Cost, total: f64, currency: &str) {
        cost.record(&UsageUpdate::new(1, 2).cost(v1::Cost::new(total, currency)));
    }

    #[test]
    fn turn_cost_is_the_increase_of_the_total() {
        let mut cost = Cost::default();
        report(&mut cost, 0.5, "USD");
        assert_eq!(cost.usd(), (0.5, 0.5));
        cost.begin_turn();
        report(&mut cost, 0.75, "usd");
        report(&mut cost, 9.0, "EUR");
        assert_eq!(cost.usd(), (0.25, 0.75));
        cost.begin_turn();
        report(&mut cost, 0.25, "USD");
        assert_eq!(cost.usd(), (0.25, 1.0), "a total that shrinks was restarted");
    }

    #[test]
    fn earlier_cost_of_a_resumed_session_is_not_counted() {
        let mut cost = Cost { is_resumed: true, ..Cost::default() };
        report(&mut cost, 5.0, "USD");
        assert_eq!(cost.usd(), (0.0, 0.0));
        report(&mut cost, 5.5, "USD");
        assert_eq!(cost.usd(), (0.5, 0.5));
    }
}
