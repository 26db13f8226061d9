//! Who asks, and for what.

use leasehold_core::{AcquireKey, Caller, Lease, Owner, Spec};

/// The owner of most leases here.
pub(crate) fn owner_a() -> Caller {
    caller("company-a/production")
}

/// Somebody else: another company, with an environment of the same name.
pub(crate) fn owner_b() -> Caller {
    caller("company-b/production")
}

fn caller(owner: &str) -> Caller {
    let owner: Owner = owner.parse().expect("an owner");
    Caller::Owner { owner, grant: None }
}

/// The holder of the lease as it was handed out: its owner, with its grant.
pub(crate) fn owner_of(lease: &Lease) -> Caller {
    Caller::Owner { owner: lease.owner.clone(), grant: Some(lease.grant) }
}

/// An acquire key.
pub(crate) fn key(text: &str) -> AcquireKey {
    AcquireKey::new(text).expect("an acquire key")
}

/// A spec that asks for a shape.
pub(crate) fn spec_of_shape(shape: &str) -> Spec {
    Spec { shape: Some(shape.to_owned()), ..Spec::default() }
}

/// A spec that asks for an image.
pub(crate) fn spec_of_image(image: &str) -> Spec {
    Spec { image: Some(image.to_owned()), ..Spec::default() }
}
