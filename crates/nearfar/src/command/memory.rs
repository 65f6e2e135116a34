//! `nearfar memory`: offers memory to other hosts, and tries what they offer.

use std::io::{self, Write};

use nearfar_measure::Kind;
use nearfar_measure::results::Metric;
use nearfar_memory::{Budgets, MemorySystem, TierKind, TierSpec};
use nearfar_rdma::{HostCheck, HostOptions, RemoteHost, Secret, Server, ServerOptions};
use nearfar_topology::Topology;
use serde_json::json;

use crate::args::{MemoryAction, MemoryArgs, MemoryCheckArgs, MemoryServeArgs};
use crate::interrupt::{asked_to_end, run_until_interrupted};
use crate::machine;
use crate::message;
use crate::output::figures;

/// Runs the command.
pub fn run(args: &MemoryArgs) -> anyhow::Result<()> {
    match &args.action {
        MemoryAction::Serve(args) => serve(args),
        MemoryAction::Check(args) => check(args),
    }
}

fn serve(args: &MemoryServeArgs) -> anyhow::Result<()> {
    let secret = Secret::read(&args.secret_file)?;
    let system = MemorySystem::new(&Topology::this_machine()?, &Budgets::new())?;
    let placement = args.placement.resolve(&system)?;
    let mut options = ServerOptions::new(args.listen, args.size.0, placement);
    options.device.clone_from(&args.device);
    options.lease = args.lease;
    options.clients_max = args.max_clients;
    machine::front()?.block_on(async {
        let asked = asked_to_end()?;
        let server = Server::start(&system, secret, options)?;
        message::print(&format!(
            "offering {} bytes at {} over {}",
            args.size.0,
            server.address(),
            server.device()
        ));
        asked.await;
        let usage = server.usage();
        if usage.used_bytes > 0 {
            let (bytes, clients) = (usage.used_bytes, usage.clients);
            message::print(&format!("taking {bytes} bytes back from {clients} clients"));
        }
        drop(server);
        Ok(())
    })
}

/// The name of the tier that the other host's memory is.
const TIER: &str = "remote";
/// Room for the near buffers of connections and of the ring that is streamed through.
const NEAR_BYTES: u64 = 64 << 20;
/// The largest pages that memory is given in.
const PAGE_BYTES_MAX: u64 = 1 << 30;

fn check(args: &MemoryCheckArgs) -> anyhow::Result<()> {
    let secret = Secret::read(&args.secret_file)?;
    let (address, bytes, device) = (args.address, args.size.0, args.device.clone());
    let (host, checked) = run_until_interrupted(move || {
        let near = TierSpec::new("near", TierKind::LocalDram, [0], NEAR_BYTES);
        // In whole pages of the other host, of which not even the largest is larger.
        let capacity_bytes = bytes.saturating_add(PAGE_BYTES_MAX);
        let remote = TierSpec::rdma(TIER, address.to_string(), capacity_bytes);
        let system = MemorySystem::from_specs(vec![near, remote], &Budgets::new())?;
        let tier = system.tier(TIER)?;
        let options = HostOptions {
            device,
            ..HostOptions::default()
        };
        let host = RemoteHost::connect(&system, tier, address, &secret, options)?;
        let checked = host.check(usize::try_from(bytes)?)?;
        Ok((host, checked))
    })?;
    let metrics = metrics(&host, &checked);
    let configuration = json!({ "host": host.name(), "device": host.device(), "bytes": bytes });
    let table = |_: &[Metric], out: &mut dyn Write| write_table(&host, &checked, out);
    figures::print_measured(args.figures.format, configuration, &metrics, table)
}

fn metrics(host: &RemoteHost, checked: &HostCheck) -> Vec<Metric> {
    let figures = [
        ("remote_offered_bytes", host.offered_bytes()),
        ("remote_charged_bytes", checked.charged_bytes),
        ("remote_verified_bytes", checked.verified_bytes),
        ("remote_streamed_bytes", checked.streamed_bytes),
    ];
    let metric = |(name, bytes): (&str, u64)| {
        Metric::new(name, bytes as f64, "B", Kind::Measured)
            .with("host", host.name())
            .with("tier_kind", json!(TierKind::Rdma.to_string()))
    };
    figures.map(metric).into()
}

fn write_table(host: &RemoteHost, checked: &HostCheck, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "host          {} over {}", host.name(), host.device())?;
    writeln!(out, "tier kind     {}", TierKind::Rdma)?;
    writeln!(out, "offered       {} bytes", host.offered_bytes())?;
    writeln!(out, "lease         {} s", host.lease().as_secs_f64())?;
    writeln!(out, "charged       {} bytes", checked.charged_bytes)?;
    let verified = checked.verified_bytes;
    writeln!(
        out,
        "verified      {verified} bytes: written, read, and the same"
    )?;
    let streamed = checked.streamed_bytes;
    writeln!(
        out,
        "streamed      {streamed} bytes: fetched by copiers, and of the same sum"
    )
}
