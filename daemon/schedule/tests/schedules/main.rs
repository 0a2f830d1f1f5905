//! Every algorithm, operation, size and count, through the checker; the literature's closed forms; wrong schedules.

mod closed_forms;
mod every;
mod forms;
mod in_turn;
mod message_counts;
mod model;
mod mutations;
mod refusals;
mod shapes;
