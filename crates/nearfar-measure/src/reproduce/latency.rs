//! Latency of single accesses in the model (weisgut-2025, section 4.4).

use nearfar_model::simulation::pattern::mix;
use nearfar_model::simulation::{
    Access, AddressMap, Caches, Machine, MachineError, Operation, Program, Simulation, TierName,
};

use super::points::{LatencyOp, LatencyTier, Statistic};

/// Region of the published runs: 8 GiB.
const REGION_BYTES: u64 = 8 << 30;
const SAMPLES: u32 = 8_000;
/// Accesses from one sample to the next in a sequential read: a prime, so that samples fall on all
/// parts of a page. The published runs took every 10,000th.
const SEQUENTIAL_INTERVAL: u32 = 131;
/// Time of a fence that has nothing to wait for: about 33 cycles at 2.9 GHz.
const FENCE_PS: u32 = 11_000;

/// Latencies of one benchmark on one tier, in ascending order.
pub(super) struct Latencies {
    sorted_ns: Vec<f64>,
}

impl Latencies {
    pub(super) fn simulate(
        op: LatencyOp,
        tier: LatencyTier,
        machine: &Machine,
    ) -> Result<Self, MachineError> {
        let tier = match tier {
            LatencyTier::Cpu => TierName::Near,
            LatencyTier::RemoteCpu => TierName::Remote,
            LatencyTier::Cxl => TierName::Far,
        };
        let mut map = AddressMap::new();
        map.add(0, REGION_BYTES >> 12, machine.devices(tier, 1)?);
        let samples = Samples {
            op,
            step: 0,
            offset: 0,
            random: 1,
        };
        let simulation = Simulation::new(machine, map, vec![Box::new(samples)], Caches::Streaming)?;
        let timer_ns = machine.core.timer_ns;
        let outcome = simulation.run();
        let mut sorted_ns: Vec<f64> = outcome
            .samples_ns
            .into_iter()
            .map(|sample| sample + timer_ns)
            .collect();
        sorted_ns.sort_by(f64::total_cmp);
        Ok(Self { sorted_ns })
    }

    pub(super) fn statistic(&self, statistic: Statistic) -> f64 {
        match statistic {
            Statistic::Mean => self.sorted_ns.iter().sum::<f64>() / self.sorted_ns.len() as f64,
            Statistic::Percentile(percentile) => {
                let rank = percentile / 100.0 * self.sorted_ns.len() as f64;
                self.sorted_ns[(rank as usize).min(self.sorted_ns.len() - 1)]
            }
        }
    }
}

/// The benchmark's thread.
struct Samples {
    op: LatencyOp,
    step: u32,
    offset: u64,
    random: u64,
}

impl Samples {
    fn random_line(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.random) % (REGION_BYTES / 64) * 64
    }
}

impl Program for Samples {
    fn next_operation(&mut self) -> Option<Operation> {
        let step = self.step;
        self.step += 1;
        match self.op {
            LatencyOp::SequentialRead => {
                let address = self.offset;
                self.offset = (self.offset + 8) % REGION_BYTES;
                let mut operation = Operation::new(Access::Load, address, 8);
                operation.fenced = true;
                operation.compute_ps = FENCE_PS;
                operation.sampled = step % SEQUENTIAL_INTERVAL == SEQUENTIAL_INTERVAL - 1;
                (step < SAMPLES * SEQUENTIAL_INTERVAL).then_some(operation)
            }
            LatencyOp::RandomRead => {
                let mut operation = Operation::new(Access::Load, self.random_line(), 8);
                operation.fenced = true;
                operation.sampled = true;
                (step < SAMPLES).then_some(operation)
            }
            LatencyOp::WriteBack => {
                if step.is_multiple_of(2) {
                    self.offset = self.random_line();
                    return (step < 2 * SAMPLES)
                        .then(|| Operation::new(Access::Load, self.offset, 8));
                }
                let mut operation = Operation::new(Access::Flush, self.offset, 8);
                operation.fenced = true;
                operation.sampled = true;
                Some(operation)
            }
        }
    }
}
