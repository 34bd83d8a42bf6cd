//! `HRANDFIELD`.

use crate::Context;
use crate::commands::is_option;
use crate::number::integer;
use crate::value::Hash;
use crate::value::hash::Field;
use kevy_proto::resp::{Args, Encoder, ErrorReply, RespVersion};
use kevy_proto::rng::Rng;

/// The most fields that one request may draw with repetition. Redis has no such limit: there a few bytes of request can
/// ask for more of a reply than memory holds.
const MOST_DRAWS: u64 = 1 << 22;

/// `HRANDFIELD key [count [WITHVALUES]]`: `count` different fields, or `-count` fields that may repeat.
pub(super) fn hrandfield(cx: &mut Context<'_>, args: Args<'_>) -> Result<(), ErrorReply> {
    let wanted = Wanted::read(args)?;
    let now_ms = cx.keyspace.fields_now_ms(cx.now);
    let mut rng = Rng::from_seed(cx.keyspace.rng().next_u64());
    let hash: Option<&Hash> = cx.keyspace.collection(args.at(1), cx.now, cx.effects)?;
    let Some(wanted) = wanted else {
        let field = hash.and_then(|hash| hash.random(now_ms, &mut rng));
        cx.reply.bulk_or_null(field.map(|field| field.name));
        return Ok(());
    };
    let reply = &mut cx.reply;
    let Some(hash) = hash.filter(|hash| hash.len(now_ms) > 0) else {
        reply.array(0);
        return Ok(());
    };
    let count = wanted.count.unsigned_abs() as usize;
    if wanted.count < 0 {
        wanted.reply_head(reply, count);
        hash.draw(count, now_ms, &mut rng, |field| wanted.reply(reply, field));
    } else {
        let fields = hash.sample(count, now_ms, &mut rng);
        wanted.reply_head(reply, fields.len());
        for field in fields {
            wanted.reply(reply, field);
        }
    }
    Ok(())
}

/// What a request with a count asks for.
struct Wanted {
    count: i64,
    values: bool,
}

impl Wanted {
    /// Reads `[count [WITHVALUES]]`; `None` without a count.
    fn read(args: Args<'_>) -> Result<Option<Self>, ErrorReply> {
        let Some(count) = args.get(2) else {
            return Ok(None);
        };
        let count = integer(count)?;
        if count == i64::MIN {
            return Err(ErrorReply::text(
                "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
            ));
        }
        let values = args.len() > 3;
        if values && (args.len() > 4 || !is_option(args, 3, "withvalues")) {
            return Err(ErrorReply::Syntax);
        }
        let too_many = count.unsigned_abs() > i64::MAX.unsigned_abs() / 2 && values;
        if too_many || (count < 0 && count.unsigned_abs() > MOST_DRAWS) {
            return Err(ErrorReply::text("ERR value is out of range"));
        }
        Ok(Some(Self { count, values }))
    }

    fn reply_head(&self, reply: &mut Encoder<'_>, count: usize) {
        let flat = self.values && reply.version() == RespVersion::V2;
        reply.array(if flat { 2 * count } else { count });
    }

    fn reply(&self, reply: &mut Encoder<'_>, field: Field<'_>) {
        if self.values && reply.version() == RespVersion::V3 {
            reply.array(2);
        }
        reply.bulk(field.name);
        if self.values {
            reply.bulk(field.value);
        }
    }
}
