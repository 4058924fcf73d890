//! Frames and descriptors on a socket.

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;

/// No message is longer; the longest are build logs and signatures.
const LIMIT: usize = 64 << 20;

fn broken(what: &str, error: impl std::fmt::Display) -> Error {
    Error::Protocol(format!("{what}: {error}"))
}

/// Sends one message.
///
/// # Errors
/// [`Error::Protocol`]: the other end is gone, or the message is too long.
pub fn send(stream: &mut impl Write, message: &impl Serialize) -> Result<(), Error> {
    let mut frame = vec![0; 4];
    serde_json::to_writer(&mut frame, message).map_err(|error| broken("a message cannot be written", error))?;
    let length = frame.len() - 4;
    if length > LIMIT {
        return Err(Error::Protocol(format!("a message of {length} bytes; the limit is {LIMIT}")));
    }
    frame[..4].copy_from_slice(&(length as u32).to_le_bytes());
    stream.write_all(&frame).map_err(|error| broken("sending", error))
}

/// Receives one message; `None` where the other end closed between two messages.
///
/// # Errors
/// [`Error::Protocol`]: the other end closed within a message, or the message is none of ours.
pub fn receive<T: DeserializeOwned>(stream: &mut impl Read) -> Result<Option<T>, Error> {
    let mut length = [0; 4];
    let mut have = 0;
    while have < length.len() {
        match stream.read(&mut length[have..]) {
            Ok(0) if have == 0 => return Ok(None),
            Ok(0) => return Err(Error::Protocol("the other end closed within a message".to_owned())),
            Ok(count) => have += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // A process that dies with unread bytes in its socket resets the connection.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(broken("receiving", error)),
        }
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LIMIT {
        return Err(Error::Protocol(format!("a message of {length} bytes is announced; the limit is {LIMIT}")));
    }
    let mut frame = vec![0; length];
    stream.read_exact(&mut frame).map_err(|error| broken("receiving", error))?;
    serde_json::from_slice(&frame).map(Some).map_err(|error| broken("a message cannot be read", error))
}

/// Sends a descriptor, with one byte to carry it.
///
/// # Errors
/// [`Error::Protocol`]: the system refuses.
pub fn send_descriptor(stream: impl AsFd, descriptor: BorrowedFd<'_>) -> Result<(), Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    let descriptors = [descriptor];
    ancillary.push(SendAncillaryMessage::ScmRights(&descriptors));
    sendmsg(stream, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL).map_err(|error| broken("sending a descriptor", error))?;
    Ok(())
}

/// Receives what [`send_descriptor`] sent.
///
/// # Errors
/// [`Error::Protocol`]: something else came.
pub fn receive_descriptor(stream: impl AsFd) -> Result<OwnedFd, Error> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(stream, &mut [IoSliceMut::new(&mut byte)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)
        .map_err(|error| broken("receiving a descriptor", error))?;
    let mut descriptors = ancillary.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
        _ => None,
    });
    descriptors.next().and_then(|mut found| found.next()).ok_or_else(|| Error::Protocol("no descriptor came".to_owned()))
}

#[cfg(test)]
mod tests {
    use std::io::Seek as _;
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::protocol::Request;

    #[test]
    fn messages_survive_and_the_end_is_an_end() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        send(&mut ours, &Request::Reset { batch: 3 }).unwrap();
        assert_eq!(receive::<Request>(&mut theirs).unwrap(), Some(Request::Reset { batch: 3 }));
        drop(ours);
        assert_eq!(receive::<Request>(&mut theirs).unwrap(), None);
    }

    #[test]
    fn foreign_bytes_are_refused() {
        for bytes in [&b"\x01"[..], b"\xff\xff\xff\xff", b"\x02\0\0\0{", b"\x02\0\0\0{}", b"\x01\0\0\0\xff", b"\0\0\0\0"] {
            assert!(receive::<Request>(&mut &bytes[..]).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn a_descriptor_arrives_between_messages() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"shared").unwrap();
        send(&mut ours, &Request::Cache).unwrap();
        send_descriptor(&ours, file.as_fd()).unwrap();
        send(&mut ours, &Request::Reset { batch: 1 }).unwrap();
        assert_eq!(receive::<Request>(&mut theirs).unwrap(), Some(Request::Cache));
        let mut same = std::fs::File::from(receive_descriptor(&theirs).unwrap());
        assert_eq!(receive::<Request>(&mut theirs).unwrap(), Some(Request::Reset { batch: 1 }));
        same.rewind().unwrap();
        let mut text = String::new();
        same.read_to_string(&mut text).unwrap();
        assert_eq!(text, "shared");
    }
}
