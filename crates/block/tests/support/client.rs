//! A naive NBD client, written from the specification: one request at a time, simple replies.
#![allow(dead_code, reason = "each test uses a part")]

use std::io::{Read, Result, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const WRITE_ZEROES: u16 = 6;
pub const FUA: u16 = 1;

pub struct Client {
    pub stream: UnixStream,
    pub bytes: u64,
    pub flags: u16,
    cookie: u64,
}

fn array<const N: usize>(stream: &mut UnixStream) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).map(|()| bytes)
}

impl Client {
    /// After the handshake (NBD_OPT_EXPORT_NAME).
    pub fn connect(socket: &Path) -> Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(Duration::from_secs(60)))?;
        assert_eq!(&array::<18>(&mut stream)?[..16], b"NBDMAGICIHAVEOPT");
        stream.write_all(
            &[&3u32.to_be_bytes()[..], b"IHAVEOPT", &1u32.to_be_bytes(), &0u32.to_be_bytes()].concat(),
        )?;
        let bytes = u64::from_be_bytes(array(&mut stream)?);
        let flags = u16::from_be_bytes(array(&mut stream)?);
        Ok(Self { stream, bytes, flags, cookie: 0 })
    }

    /// Sends a request; returns its cookie.
    pub fn send(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Result<u64> {
        self.cookie += 1;
        let mut head = vec![0x25, 0x60, 0x95, 0x13];
        head.extend(flags.to_be_bytes());
        head.extend(command.to_be_bytes());
        head.extend(self.cookie.to_be_bytes());
        head.extend(offset.to_be_bytes());
        head.extend(length.to_be_bytes());
        self.stream.write_all(&head)?;
        self.stream.write_all(data)?;
        Ok(self.cookie)
    }

    /// The next reply: the error, and the cookie.
    pub fn reply(&mut self) -> Result<(u32, u64)> {
        assert_eq!(u32::from_be_bytes(array(&mut self.stream)?), 0x6744_6698);
        let error = u32::from_be_bytes(array(&mut self.stream)?);
        Ok((error, u64::from_be_bytes(array(&mut self.stream)?)))
    }

    /// A request and its reply; the error.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, length: u32, data: &[u8]) -> Result<u32> {
        let cookie = self.send(command, flags, offset, length, data)?;
        let (error, of) = self.reply()?;
        assert_eq!(of, cookie);
        Ok(error)
    }

    pub fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>> {
        assert_eq!(self.ask(READ, 0, offset, length as u32, &[])?, 0);
        let mut data = vec![0; length];
        self.stream.read_exact(&mut data).map(|()| data)
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> Result<()> {
        assert_eq!(self.ask(WRITE, 0, offset, data.len() as u32, data)?, 0);
        Ok(())
    }

    pub fn flush(&mut self) -> Result<()> {
        assert_eq!(self.ask(FLUSH, 0, 0, 0, &[])?, 0);
        Ok(())
    }
}
