#include "text/builtin_templates.h"

namespace tutti::text {

// <|text_break|>: text_break.h. Tags are written so that no line end outside of strings is output.
const std::string_view kQwenChatTemplate = R"(
{%- set first = messages[0]['role'] if messages else '' -%}
{%- set system = messages[0]['content'] if first == 'system' else 'You are a helpful assistant.' -%}
{%- set turns = messages[1:] if first == 'system' else messages -%}
{{- '<|im_start|>system<|text_break|>\n<|text_break|>' ~ system ~ '<|im_end|>' -}}
{%- for message in turns -%}
  {%- if message['role'] not in ['user', 'assistant'] -%}
    {{- raise_exception('this model knows one system message at the beginning, and the '
                        ~ 'roles user and assistant') -}}
  {%- endif -%}
  {{- '\n<|im_start|>' ~ ('user' if message['role'] == 'user' else 'assistant')
      ~ '<|text_break|>\n<|text_break|>' ~ (message['content'] or '') ~ '<|im_end|>' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '\n<|im_start|>assistant<|text_break|>\n' -}}
{%- endif -%}
)";

const std::string_view kChatGlmTemplate = R"(
{%- macro head(role, metadata) -%}
  {{- '<|' ~ role ~ '|>' ~ metadata ~ '\n<|text_break|>' -}}
{%- endmacro -%}
{%- macro described(tools) -%}
  {%- if tools and tools[0].function is defined -%}
    {%- set tools = tools | map(attribute='function') | list -%}
  {%- endif -%}
  {{- '\n' ~ (tools | tojson(indent=4)) -}}
{%- endmacro -%}
{%- set roles = {'system': 'system', 'user': 'user', 'assistant': 'assistant',
                 'tool': 'observation', 'observation': 'observation'} -%}
{{- '[gMASK]sop' -}}
{%- if tools and (not messages or messages[0]['role'] != 'system') -%}
  {{- head('system', '') ~ 'Answer the following questions as best as you can. '
      ~ 'You have access to the following tools:' ~ described(tools) -}}
{%- endif -%}
{%- for message in messages -%}
  {%- set role = roles.get(message['role']) -%}
  {%- if not role -%}
    {{- raise_exception('this model does not know the role ' ~ message['role']) -}}
  {%- endif -%}
  {%- set content = message['content'] or '' -%}
  {%- set calls = message.tool_calls or [] -%}
  {%- if content or not calls -%}
    {{- head(role, message.metadata or '') ~ content -}}
  {%- endif -%}
  {%- if loop.first and role == 'system' and tools -%}
    {{- described(tools) -}}
  {%- endif -%}
  {%- for call in calls -%}
    {%- set function = call.function or call -%}
    {{- head('assistant', function.name) ~ '```python\ntool_call(' -}}
    {%- if function.arguments is mapping -%}
      {%- for name, value in function.arguments.items() -%}
        {{- (', ' if not loop.first else '') ~ name ~ '=' ~ (value | tojson) -}}
      {%- endfor -%}
    {%- else -%}
      {{- function.arguments or '' -}}
    {%- endif -%}
    {{- ')\n```' -}}
  {%- endfor -%}
{%- endfor -%}
{%- if add_generation_prompt -%}
  {{- '<|assistant|>' -}}
{%- endif -%}
)";

}  // namespace tutti::text
