//! The equations of the Bandwidth and Overhead User-level Model, with their numbers in R. Dimitrov, *Overlapping of
//! Communication and Computation and Early Binding*, 2001, chapter III. Times are in seconds.

/// What a message of m bytes costs its program.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message {
    /// Overhead of set-up and release, `o_s`.
    pub set_up: f64,
    /// Overhead of initiation and completion, `o_i`.
    pub initiate: f64,
    /// For the bytes, `b·m`.
    pub bytes: f64,
    /// What it takes more than those three if it is not bound: in the thesis nothing. It is more where it has to go to a daemon first, which
    /// finds its match, and less where a small one within a node needs no request at all.
    pub detour: f64,
}

impl Message {
    /// `T_c(m) = o + b·m`, where `o = o_s + o_i` (3.3, 3.9), and the detour.
    pub fn time(self) -> f64 {
        self.overhead() + self.bytes
    }

    /// The same message on a request that is there already: what is left is `o_i + b·m`.
    pub fn bound(self) -> Self {
        Self { set_up: 0.0, detour: 0.0, ..self }
    }

    fn overhead(self) -> f64 {
        self.set_up + self.initiate + self.detour
    }

    /// What early binding speeds messages up by, `S_c = (1 + R) / (1 + R·(1 − d_p))` (3.16), where `R = o / b·m` and
    /// `d_p = o_s / o` (3.14). The overhead `o` is all that a one-shot message costs besides its bytes, also its detour.
    pub fn binding_speed_up(self) -> f64 {
        self.time() / self.bound().time()
    }

    /// The same of a request that is started M times, `M·(o_s + o_i + b·m) / (o_s + M·(o_i + b·m))` (3.22).
    ///
    /// The published (3.23), with R and d_p, has a factor (M + 1)/M that does not follow from (3.22).
    pub fn binding_speed_up_of(self, starts: u64) -> f64 {
        let starts = starts as f64;
        starts * self.time() / (self.set_up + starts * self.bound().time())
    }

    /// The number of segments at which a step with overlap takes least, `s_b = √(d_o / R·(1 − d_o))` (3.51). At least 1, and
    /// infinite where everything hides.
    pub fn best_segments(self, d_o: f64) -> f64 {
        self.useful_segments_max(d_o).sqrt().max(1.0)
    }

    /// The largest number of segments that is not slower than one, `s_2 = d_o / R·(1 − d_o)` (3.49).
    pub fn useful_segments_max(self, d_o: f64) -> f64 {
        d_o.clamp(0.0, 1.0) * self.bytes / (self.overhead() * (1.0 - d_o.clamp(0.0, 1.0)))
    }
}

/// Speed-up of a program whose communication is a share α of its time and gets faster by S_c:
/// `S = 1 / (1 − α + α/S_c)` (3.6).
pub fn speed_up(share: f64, of_communication: f64) -> f64 {
    1.0 / (1.0 - share + share / of_communication)
}

/// Computation and communication at once: `T_p = T_comp + (1 − d_o)·T_c` (3.33). Where there is less to compute than could
/// hide, no more hides than that (3.28).
pub fn overlapped(computation: f64, communication: f64, d_o: f64) -> f64 {
    computation + communication - (d_o * communication).min(computation)
}

/// A step whose message is cut in s segments, each computed while the next one travels:
/// `T_step(s) = t_c·m_e + T_c(m/s)·(s − (s − 1)·d_o)` (3.43). Where less is computed with a segment than could hide of it, no more
/// hides than that, as in [`overlapped`].
pub fn step(computation: f64, segment: f64, segments: u32, d_o: f64) -> f64 {
    let segments = f64::from(segments);
    segment + computation / segments + (segments - 1.0) * overlapped(computation / segments, segment, d_o)
}

/// Segmentation efficiency `E_s = T_c(m) / (s·T_c(m/s))` (3.44), from the times of the message and of a segment.
pub fn segmentation_efficiency(whole: f64, segment: f64, segments: u32) -> f64 {
    whole / (f64::from(segments) * segment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message by R and q = o_s/o_i, whose bytes cost a second.
    fn message(r: f64, q: f64) -> Message {
        Message { set_up: r * q / (1.0 + q), initiate: r / (1.0 + q), bytes: 1.0, detour: 0.0 }
    }

    fn assert_near(found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() <= tolerance, "{found} instead of {expected}");
    }

    #[test]
    fn published_examples_of_early_binding() {
        assert_near(message(0.6, 1.0).binding_speed_up(), 1.23, 0.005);
        let speed_up_of_messages = message(0.6, 5.0).binding_speed_up();
        assert_near(speed_up_of_messages, 1.46, 0.006);
        assert_near(speed_up(0.5, speed_up_of_messages), 1.19, 0.006);
    }

    #[test]
    fn both_forms_of_its_speed_up_are_one() {
        for (r, q) in [(0.1, 0.5), (0.6, 1.0), (3.0, 8.0)] {
            let message = message(r, q);
            // (3.16) and, with q, (3.12); d_p by (3.15)
            let d_p = q / (1.0 + q);
            assert_near(message.binding_speed_up(), (1.0 + r) / (1.0 + r * (1.0 - d_p)), 1e-12);
            assert_near(message.binding_speed_up(), (1.0 + q) * (1.0 + r) / (1.0 + q + r), 1e-12);
        }
    }

    #[test]
    fn binding_once_for_a_single_start_saves_nothing() {
        assert_near(message(0.6, 5.0).binding_speed_up_of(1), 1.0, 1e-12);
        assert!(message(0.6, 5.0).binding_speed_up_of(10) < message(0.6, 5.0).binding_speed_up());
        assert_near(message(0.6, 5.0).binding_speed_up_of(1 << 40), message(0.6, 5.0).binding_speed_up(), 1e-9);
    }

    #[test]
    fn who_is_bound_makes_no_detour() {
        let message = Message { detour: 4.0, ..message(0.6, 1.0) };
        assert_near(message.time(), 5.6, 1e-12);
        assert_near(message.bound().time(), 1.3, 1e-12);
        assert_near(message.binding_speed_up(), 5.6 / 1.3, 1e-12);
    }

    #[test]
    fn at_most_what_is_computed_hides() {
        assert_near(overlapped(4.0, 2.0, 0.9), 4.2, 1e-12);
        assert_near(overlapped(1.0, 2.0, 0.9), 2.0, 1e-12);
        // Ideal speed-up (3.28) with q = 2: (1 + q)/q.
        assert_near(3.0 / overlapped(1.0, 2.0, 1.0), 1.5, 1e-12);
        // Attempting overlap may slow a program down.
        assert_near(overlapped(4.0, 2.0, -0.5), 7.0, 1e-12);
    }

    #[test]
    fn a_step_is_the_published_sum() {
        let (computation, d_o) = (10.0, 0.8);
        for segments in [1, 2, 8] {
            let s = f64::from(segments);
            let segment = 0.01 + 1.0 / s;
            assert_near(
                step(computation, segment, segments, d_o),
                computation + segment * (s - (s - 1.0) * d_o),
                1e-12,
            );
        }
    }

    #[test]
    fn the_best_number_of_segments_is_the_lowest_point_of_the_curve() {
        let (message, d_o) = (message(0.01, 1.0), 0.8);
        let time = |s: f64| (message.time() - message.bytes + message.bytes / s) * (s - (s - 1.0) * d_o);
        let best = message.best_segments(d_o);
        assert_near(best, 20.0, 1e-9);
        assert!(time(best) < time(best * 1.01) && time(best) < time(best * 0.99));
        // Break-even (3.46): there E_s = 1 − (s − 1)/s · d_o.
        let last = message.useful_segments_max(d_o);
        assert_near(time(last), time(1.0), 1e-9);
        let segment = message.time() - message.bytes + message.bytes / last;
        let efficiency = segmentation_efficiency(message.time(), segment, last as u32);
        assert_near(efficiency, 1.0 - (last - 1.0) / last * d_o, 1e-9);
    }

    #[test]
    fn where_nothing_hides_one_segment_is_best() {
        assert_eq!(message(0.01, 1.0).best_segments(0.0), 1.0);
        assert_eq!(message(0.01, 1.0).best_segments(-0.3), 1.0);
        assert_eq!(message(0.01, 1.0).best_segments(1.0), f64::INFINITY);
    }
}
