//! A victim that tells how fast it is, and groups that share a processor with it or do not.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::{Duration, Instant};

const ROOT: &str = "/sys/fs/cgroup";
/// What the kernel says of a group without a quota.
pub const UNLIMITED: &str = "max 100000\n";
/// What a group's task has in its node's memory before anybody looks.
const TASK_BYTES: u64 = 2 << 20;
/// How long a victim looks before it tells: many of the ticks that the kernel counts running in.
const ROUND_NS: u32 = 200_000_000;
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until something is so.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "never: {what}");
        thread::sleep(Duration::from_millis(50));
    }
}

/// A child that is killed when it is dropped.
pub struct Task(pub Child);

impl Task {
    /// A shell that runs `script` on one processor, with its memory on one node.
    fn start(processor: u32, node: u32, before: &str, script: &str) -> Self {
        let bound = format!(
            "{before} exec numactl --physcpubind={processor} --membind={node} sh -c \"$0\""
        );
        let child = Command::new("sh").args(["-c", &bound, script]).spawn();
        Self(child.expect("started"))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A victim on processor 0 that writes to a file how long its work takes: hundredths of what it takes with the
/// processor for itself. The kernel's own times of running and of waiting for the processor tell that, so that a host
/// that gets slower meanwhile changes nothing.
pub struct Victim {
    _task: Task,
    pub file: PathBuf,
}

impl Victim {
    /// What it tells when nothing is in its way.
    pub const ALONE: u32 = 100;

    pub fn start(folder: &Path) -> Self {
        let file = folder.join("victim");
        let script = format!(
            "while :; do
read ran waited _ < /proc/$$/schedstat
run=$ran wait=$waited
while [ $run = $ran ] || [ $((run - ran + wait - waited)) -lt {round_ns} ]; do
i=0; while [ $i -lt 5000 ]; do i=$((i+1)); done
read run wait _ < /proc/$$/schedstat
done
echo $((({alone} * (run - ran + wait - waited)) / (run - ran))) > {file}.new
mv {file}.new {file}
done",
            alone = Self::ALONE,
            round_ns = ROUND_NS,
            file = file.display()
        );
        let victim = Self {
            _task: Task::start(0, 0, "", &script),
            file,
        };
        until("the victim tells its time", || victim.file.exists());
        victim
    }

    /// The median of the next times that it tells.
    pub fn time(&self) -> u32 {
        let mut times = [0; 5];
        let mut last = None;
        for time in &mut times {
            let written = || {
                fs::metadata(&self.file)
                    .and_then(|file| file.modified())
                    .ok()
            };
            until("the victim goes on", || written() != last);
            last = written();
            let text = fs::read_to_string(&self.file).expect("read");
            *time = text.trim().parse().expect("a number");
        }
        times.sort_unstable();
        times[times.len() / 2]
    }
}

/// A group with a task that keeps a processor busy and has its memory on one node.
pub struct Group {
    name: &'static str,
    _task: Task,
}

impl Group {
    /// Makes the groups, without tasks.
    pub fn make(names: &[&str]) {
        fs::write(format!("{ROOT}/cgroup.subtree_control"), "+cpu +memory").expect("delegated");
        for name in names {
            fs::create_dir_all(Path::new(ROOT).join(name)).expect("made");
        }
    }

    pub fn start(name: &'static str, processor: u32, node: u32) -> Self {
        let work = "text=$(head -c 4000000 /dev/zero | tr '\\0' x); while :; do :; done";
        let joined = format!("echo $$ > {ROOT}/{name}/cgroup.procs;");
        let group = Self {
            name,
            _task: Task::start(processor, node, &joined, work),
        };
        until("the group has its memory", || {
            group.bytes_on(node) >= TASK_BYTES
        });
        group
    }

    pub fn quota(&self) -> String {
        self.content("cpu.max")
    }

    fn content(&self, file: &str) -> String {
        fs::read_to_string(format!("{ROOT}/{}/{file}", self.name)).expect("read")
    }

    /// Bytes of programs that the group has on a node.
    fn bytes_on(&self, node: u32) -> u64 {
        let text = self.content("memory.numa_stat");
        let line = text.lines().find_map(|line| line.strip_prefix("anon "));
        let mut words = line.unwrap_or_default().split(' ');
        let bytes = words.find_map(|word| word.strip_prefix(&*format!("N{node}=")));
        bytes.map_or(0, |bytes| bytes.parse().expect("a number"))
    }
}
