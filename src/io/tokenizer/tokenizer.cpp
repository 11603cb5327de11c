// The public face of tokenizers.
#include "hearth/tokenizer.h"

#include "hearth/error.h"
#include "io/tokenizer/pipeline.h"
#include "io/tokenizer/utf8.h"

namespace hearth {

Tokenizer::Tokenizer(std::shared_ptr<const tokenizer::Pipeline> pipeline) : pipeline_(std::move(pipeline)) {}

std::vector<TokenId> Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  return pipeline_->encode(text, options);
}

std::string Tokenizer::decode(std::span<const TokenId> ids, const DecodeOptions& options) const {
  StreamDecoder decoder(*this, options);
  std::string text;
  for (const auto id : ids) text += decoder.push(id);
  return text += decoder.finish();
}

TokenId Tokenizer::size() const { return pipeline_->vocabulary().size(); }
std::string_view Tokenizer::text(TokenId id) const { return pipeline_->token(id).text; }
std::string_view Tokenizer::bytes(TokenId id) const {
  pipeline_->token(id);  // checks it
  return pipeline_->decoded(id);
}
std::optional<TokenId> Tokenizer::find(std::string_view text) const {
  return pipeline_->vocabulary().find(text);
}
const SpecialTokens& Tokenizer::special() const { return pipeline_->special(); }

bool Tokenizer::is_special(TokenId id) const {
  const auto kind = pipeline_->token(id).kind;
  return kind == tokenizer::TokenKind::control || kind == tokenizer::TokenKind::unknown;
}

bool Tokenizer::ends_generation(TokenId id) const { return pipeline_->ends_generation(id); }
bool Tokenizer::adds_bos() const {
  return special().bos && !pipeline_->prefix().empty() && pipeline_->prefix().front() == *special().bos;
}
bool Tokenizer::adds_eos() const {
  return special().eos && !pipeline_->suffix().empty() && pipeline_->suffix().back() == *special().eos;
}

StreamDecoder::StreamDecoder(const Tokenizer& tokenizer, const DecodeOptions& options)
    : tokenizer_(tokenizer), options_(options) {}

std::string StreamDecoder::push(TokenId id) {
  std::string_view bytes = tokenizer_.bytes(id);
  if (options_.skip_special && tokenizer_.is_special(id)) return {};
  if (bytes.empty()) return {};
  if (at_start_ && tokenizer_.pipeline_->strips_first_space() && bytes.starts_with(' '))
    bytes.remove_prefix(1);
  at_start_ = false;
  pending_ += bytes;
  std::string text;
  pending_.erase(0, tokenizer::append_repaired(text, pending_, false));
  return text;
}

std::string StreamDecoder::finish() {
  std::string text;
  tokenizer::append_repaired(text, pending_, true);
  pending_.clear();
  at_start_ = true;
  return text;
}

}  // namespace hearth
