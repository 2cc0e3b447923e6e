//! Size prefixes, and the headers behind them.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut rest = bytes;
    while let Some((prefix, behind)) = rest.split_first_chunk::<4>() {
        let Ok(len) = wire::frame_len(*prefix, 1 << 20) else { break };
        let Some((frame, after)) = behind.split_at_checked(len) else { break };
        if let Ok((header, body)) = wire::decode_request_header(frame) {
            assert!(body.position() + body.remaining().len() == frame.len(), "{header:?}");
        }
        for key in wire::ApiKey::ALL {
            let _ = wire::decode_response_header(frame, *key, *key.versions().end());
        }
        rest = after;
    }
});
