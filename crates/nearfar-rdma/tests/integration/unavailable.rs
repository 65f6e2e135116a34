//! What is said on machines without RDMA, and to whom nobody answers.

use nearfar_memory::rdma::RdmaError;
use nearfar_memory::{Budgets, MemorySystem, Placement, TierId, TierKind, TierSpec};
use nearfar_rdma::{
    HostOptions, RemoteError, RemoteHost, Secret, ServeError, Server, ServerOptions,
};

#[test]
fn errors_name_what_is_missing() {
    let near = TierSpec::new("near", TierKind::LocalDram, [0], 16 << 20);
    let remote = TierSpec::rdma("remote", "127.0.0.1:1", 1 << 20);
    let system = MemorySystem::from_specs(vec![near, remote], &Budgets::new()).unwrap();
    let secret = Secret::new(b"sixteen bytes at least").unwrap();
    let address = "127.0.0.1:1".parse().unwrap();
    let connect = |tier| {
        let options = HostOptions::default();
        RemoteHost::connect(&system, tier, address, &secret, options).unwrap_err()
    };
    let unreachable = connect(system.tier("remote").unwrap());
    let told = match &unreachable {
        // Without a device of its own, a machine tries no other.
        RemoteError::Rdma {
            source: RdmaError::Unavailable { .. },
            ..
        } => "host 127.0.0.1:1: RDMA is unavailable: ",
        _ => "host 127.0.0.1:1 cannot be reached",
    };
    assert!(unreachable.to_string().starts_with(told), "{unreachable}");
    let not_remote = connect(TierId::NEAR);
    assert!(
        matches!(not_remote, RemoteError::Rdma { .. }),
        "{not_remote}"
    );

    let listen = "127.0.0.1:0".parse().unwrap();
    let mut options = ServerOptions::new(listen, 1 << 20, Placement::Bind(TierId::NEAR));
    options.device = Some("no-such-device".to_owned());
    let start = |options: &ServerOptions| Server::start(&system, secret.clone(), options.clone());
    let unavailable = start(&options).err().expect("there is no such device");
    assert!(matches!(unavailable, ServeError::Rdma(_)), "{unavailable}");
    options.lease = std::time::Duration::from_millis(10);
    let lease = start(&options).err().expect("nobody renews so often");
    assert!(lease.to_string().contains("10 ms"), "{lease}");
}
