//! Byte streams between the source and the archive reader: counted, hashed, decompressed within
//! bounds.

use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, SeekFrom};
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::FrameDecoder;
use ruzstd::decoding::{BlockDecodingStrategy, errors::FrameDecoderError, errors::ReadFrameHeaderError};
use sha2::{Digest as _, Sha256};

use super::error::ImportError;
use super::limits::{LimitExceeded, Meter};
use crate::digest::Digest;

const BUFFER: usize = 128 << 10;
/// The most memory that a frame may ask for as history: as much as the zstd tool itself accepts by
/// default.
const ZSTD_WINDOW: u64 = 128 << 20;

/// A part of a file, read without moving the file's own position.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    file: Rc<File>,
    start: u64,
    length: u64,
    position: u64,
}

impl Section {
    pub(crate) fn whole(file: Rc<File>) -> io::Result<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, start: 0, length, position: 0 })
    }

    pub(crate) fn part(&self, start: u64, length: u64) -> Self {
        Self { file: Rc::clone(&self.file), start: self.start + start, length, position: 0 }
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.length.saturating_sub(self.position);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = self.file.read_at(&mut buffer[..wanted], self.start + self.position)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Seek for Section {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let position = match to {
            SeekFrom::Start(position) => Some(position),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
            SeekFrom::End(by) => self.length.checked_add_signed(by),
        };
        // Past the end of the data there is nothing to seek to: the archive is cut short.
        self.position = position.filter(|at| *at <= self.length).ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok(self.position)
    }
}

/// The bytes that went through a [`Tallied`] reader.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    bytes: Cell<u64>,
    hash: RefCell<Sha256>,
}

/// Counts and hashes what is read.
#[derive(Debug)]
pub(crate) struct Tallied<'a, 'm, R> {
    input: R,
    meter: &'a Meter<'m>,
    tally: Rc<Tally>,
}

impl<'a, 'm, R: Read> Tallied<'a, 'm, R> {
    pub(crate) fn new(input: R, meter: &'a Meter<'m>) -> Self {
        Self { input, meter, tally: Rc::default() }
    }

    /// Reads what is left, so that the digest is that of the whole source.
    pub(crate) fn finish(mut self) -> io::Result<Digest> {
        io::copy(&mut self, &mut io::sink())?;
        Ok(Digest::finish(self.tally.hash.take()))
    }
}

impl<R: Read> Read for Tallied<'_, '_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.tally.hash.borrow_mut().update(&buffer[..read]);
        self.tally.bytes.set(self.tally.bytes.get() + read as u64);
        self.meter.read(read as u64);
        Ok(read)
    }
}

/// How a stream is compressed, told by its first bytes: names and media types are only claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Zstd,
}

impl Compression {
    pub(crate) fn of(start: &[u8]) -> Result<Self, ImportError> {
        match start {
            [0x1f, 0x8b, ..] => Ok(Self::Gzip),
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Ok(Self::Zstd),
            [0xfd, b'7', b'z', b'X', b'Z', ..] => Err(ImportError::Compression { with: "xz" }),
            [b'B', b'Z', b'h', b'1'..=b'9', ..] => Err(ImportError::Compression { with: "bzip2" }),
            [0x04, 0x22, 0x4d, 0x18, ..] => Err(ImportError::Compression { with: "lz4" }),
            [b'P', b'K', 3, 4, ..] => Err(ImportError::Compression { with: "zip" }),
            _ => Ok(Self::None),
        }
    }
}

/// Decompresses what `input` holds, and stops when it grows out of all proportion.
pub(crate) fn decode<'a, R: Read + 'a>(
    input: &'a mut Tallied<'_, '_, R>,
) -> Result<Box<dyn Read + 'a>, ImportError> {
    let tally = Rc::clone(&input.tally);
    let meter = input.meter;
    let (ratio, from) = (meter.limits.ratio, meter.limits.ratio_from_bytes);
    let mut buffered = BufReader::with_capacity(BUFFER, input);
    let compression = Compression::of(buffered.fill_buf().map_err(ImportError::reading)?)?;
    let decoded: Box<dyn Read + 'a> = match compression {
        Compression::None => return Ok(Box::new(buffered)),
        Compression::Gzip => Box::new(MultiGzDecoder::new(buffered)),
        Compression::Zstd => Box::new(ZstdFrames::new(buffered)),
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER, Guard { input: decoded, tally, written: 0, ratio, from })))
}

struct Guard<R> {
    input: R,
    tally: Rc<Tally>,
    written: u64,
    ratio: u64,
    from: u64,
}

impl<R: Read> Read for Guard<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(buffer)?;
        self.written += read as u64;
        if self.written > self.from && self.written > self.tally.bytes.get().saturating_mul(self.ratio) {
            return Err(io::Error::other(LimitExceeded::Ratio { limit: self.ratio }));
        }
        Ok(read)
    }
}

/// All frames of a zstd stream: tools that compress in parallel or for random access write many.
struct ZstdFrames<R> {
    input: R,
    decoder: FrameDecoder,
    in_frame: bool,
}

impl<R: BufRead> ZstdFrames<R> {
    fn new(input: R) -> Self {
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(ZSTD_WINDOW);
        Self { input, decoder, in_frame: false }
    }

    /// Starts the next frame; false at the end of the input.
    fn start_frame(&mut self) -> io::Result<bool> {
        while !self.input.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.input) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    let skipped = io::copy(&mut (&mut self.input).take(length.into()), &mut io::sink())?;
                    if skipped < length.into() {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.in_frame {
                if !self.start_frame()? {
                    return Ok(0);
                }
                self.in_frame = true;
            }
            if self.decoder.can_collect() > 0 {
                return self.decoder.read(buffer);
            }
            if self.decoder.is_finished() {
                self.in_frame = false;
                continue;
            }
            let one_block = BlockDecodingStrategy::UptoBlocks(1);
            self.decoder.decode_blocks(&mut self.input, one_block).map_err(io::Error::other)?;
        }
    }
}
