//! Why a connection ends.

use thiserror::Error;

/// Why a connection ends. After it the server sends the rest of its output, and closes the socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Closed {
    /// The client has ended the handshake with `NBD_OPT_ABORT`.
    #[error("the client has aborted the handshake")]
    Aborted,
    /// The client has ended the transmission with `NBD_CMD_DISC`. Requests under way are answered first.
    #[error("the client has disconnected")]
    Disconnected,
    /// The client has set flags that were not offered.
    #[error("client flags {found:#x} found, only {:#x} was offered", 3)]
    ClientFlags {
        /// The flags.
        found: u32,
    },
    /// An option does not begin with its magic number.
    #[error("an option begins with {found:#x}")]
    OptionMagic {
        /// Its first bytes.
        found: u64,
    },
    /// A client that does not know replies to options has sent one that has a reply.
    #[error("option {option} found from a client without fixed newstyle")]
    NotFixed {
        /// The option.
        option: u32,
    },
    /// `NBD_OPT_EXPORT_NAME` names no export. There is no error reply to this option.
    #[error("the client has asked for an export that does not exist")]
    NoExport,
    /// The client has sent more options than a handshake may have.
    #[error("the client has sent more than {} options", crate::OPTIONS_MAX)]
    TooManyOptions,
    /// The server shuts down. There is no error reply to `NBD_OPT_EXPORT_NAME`.
    #[error("the server shuts down")]
    ShuttingDown,
    /// The server has as many connections as it may have. There is no error reply to `NBD_OPT_EXPORT_NAME`.
    #[error("too many connections are open")]
    TooManyConnections,
    /// A request does not begin with its magic number.
    #[error("a request begins with {found:#x}")]
    RequestMagic {
        /// Its first bytes.
        found: u32,
    },
}
