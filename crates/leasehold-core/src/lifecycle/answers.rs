//! What a request gets in each state: one table, tested cell by cell.

use crate::lease::State;

/// What a caller can ask of a lease that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Request {
    /// Run a command.
    Execute,
    /// Show that the grant arrived.
    Acknowledge,
    /// Move the end.
    Renew,
    /// Be done with it, and keep the sandbox.
    Park,
    /// Take it up again.
    Resume,
    /// Be done with it, and remove the sandbox.
    Destroy,
    /// Make it a template.
    Promote,
    /// Give it up without proof.
    Forget,
}

impl Request {
    /// Every request.
    pub const ALL: [Request; 8] = [
        Request::Execute,
        Request::Acknowledge,
        Request::Renew,
        Request::Park,
        Request::Resume,
        Request::Destroy,
        Request::Promote,
        Request::Forget,
    ];
}

/// What a request gets, before its guards (owner, grant, deadline) are asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Answer {
    /// It goes ahead.
    Proceed,
    /// It is so already: nothing is written, and the caller is told so.
    AlreadySo,
    /// It has ended: the caller gets its receipt again.
    Receipt,
    /// Refused: not usable yet.
    NotReady,
    /// Refused: parked.
    ResumeFirst,
    /// Refused: in use.
    ParkFirst,
    /// Refused for now: another step is under way.
    Busy,
    /// Refused: it is being removed.
    Closing,
    /// Refused: it is being removed or has ended, and the caller should acquire another.
    Gone,
}

/// The table.
#[must_use]
pub const fn answer(request: Request, state: State) -> Answer {
    use Answer as A;
    use Request as R;
    use State as S;
    match (request, state) {
        (R::Execute, S::Requested | S::Creating | S::Preparing | S::Resuming) => A::NotReady,
        (R::Execute, S::Active) => A::Proceed,
        (R::Execute, S::Parking) => A::Busy,
        (R::Execute, S::Parked) => A::ResumeFirst,
        (R::Execute, S::Destroying) => A::Closing,
        (R::Execute, S::Closed) => A::Gone,

        (R::Acknowledge, S::Requested | S::Creating | S::Preparing | S::Resuming) => A::NotReady,
        (R::Acknowledge, S::Active) => A::Proceed,
        (R::Acknowledge, S::Parking | S::Parked) => A::AlreadySo,
        (R::Acknowledge, S::Destroying) => A::Closing,
        (R::Acknowledge, S::Closed) => A::Gone,

        (R::Renew, S::Requested | S::Creating | S::Preparing) => A::NotReady,
        (R::Renew, S::Active | S::Parking | S::Parked | S::Resuming) => A::Proceed,
        (R::Renew, S::Destroying) => A::Closing,
        (R::Renew, S::Closed) => A::Gone,

        (R::Park, S::Requested | S::Creating | S::Preparing) => A::NotReady,
        (R::Park, S::Active) => A::Proceed,
        (R::Park, S::Parking | S::Resuming) => A::Busy,
        (R::Park, S::Parked) => A::AlreadySo,
        (R::Park, S::Destroying) => A::Closing,
        (R::Park, S::Closed) => A::Receipt,

        (R::Resume, S::Requested | S::Creating | S::Preparing) => A::NotReady,
        (R::Resume, S::Active) => A::ParkFirst,
        (R::Resume, S::Parking | S::Resuming) => A::Busy,
        (R::Resume, S::Parked) => A::Proceed,
        (R::Resume, S::Destroying | S::Closed) => A::Gone,

        (R::Destroy, S::Destroying) => A::AlreadySo,
        (R::Destroy, S::Closed) => A::Receipt,
        (R::Destroy, _) => A::Proceed,

        (R::Promote, S::Requested | S::Creating | S::Preparing) => A::NotReady,
        (R::Promote, S::Active) => A::ParkFirst,
        (R::Promote, S::Parking | S::Resuming) => A::Busy,
        (R::Promote, S::Parked) => A::Proceed,
        (R::Promote, S::Destroying) => A::Closing,
        (R::Promote, S::Closed) => A::Gone,

        (R::Forget, S::Closed) => A::Receipt,
        (R::Forget, _) => A::Proceed,
    }
}
