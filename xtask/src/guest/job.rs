//! What a machine is to do, as the script that its first program runs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

/// One command in the guest.
#[derive(Debug, Clone)]
pub struct Step {
    /// The program and its arguments; programs that the host passes in lie in `/programs`.
    pub command: Vec<String>,
    /// Variables of its environment, beside those that every step has.
    pub environment: Vec<(String, String)>,
    /// After this long it is killed.
    pub limit: Duration,
}

/// What one machine is to do.
#[derive(Debug, Clone, Default)]
pub struct Job {
    /// Files of the host that the guest has in `/programs`, under the given names.
    pub programs: Vec<(String, PathBuf)>,
    /// Commands, one after another; a failing one does not keep the next from running.
    pub steps: Vec<Step>,
    /// Whether a shell is opened on this terminal before the steps.
    pub shell: bool,
}

impl Job {
    /// The script, in the words of `init.sh`.
    pub fn script(&self, topology: &str) -> String {
        let mut script = format!("export NEARFAR_TESTBED={}\n", quote(topology));
        if self.shell {
            script += "cd /root; setsid -c sh -l </dev/ttyS1 >/dev/ttyS1 2>&1\n";
        }
        for (index, step) in self.steps.iter().enumerate() {
            let _ = write!(script, "step {index} {}", step.limit.as_secs());
            if !step.environment.is_empty() {
                script += " env";
            }
            for (name, value) in &step.environment {
                let _ = write!(script, " {name}={}", quote(value));
            }
            for word in &step.command {
                script.push(' ');
                script += &quote(word);
            }
            script.push('\n');
        }
        script
    }

    /// How long all steps may take together.
    pub fn limit(&self) -> Duration {
        self.steps.iter().map(|step| step.limit).sum()
    }
}

/// A word that a shell reads as it is.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_command_unchanged() {
        assert_eq!(quote("a-b/c=1"), "a-b/c=1");
        assert_eq!(quote(""), "''");
        assert_eq!(quote("it's $HOME"), r"'it'\''s $HOME'");
    }

    #[test]
    fn steps_have_a_number_a_limit_and_an_environment() {
        let step = Step {
            command: vec!["/programs/x".into(), "a b".into()],
            environment: vec![("N".into(), "1 2".into())],
            limit: Duration::from_secs(7),
        };
        let job = Job {
            steps: vec![step],
            ..Job::default()
        };
        assert_eq!(
            job.script("far-node"),
            "export NEARFAR_TESTBED=far-node\nstep 0 7 env N='1 2' /programs/x 'a b'\n"
        );
    }
}
